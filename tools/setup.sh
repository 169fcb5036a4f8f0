#!/usr/bin/env bash
# What `make setup` needs from the machine:  tools/setup.sh venv | java | namespaces | browser
# Installs only what is missing; says in one line what it could not install.
set -eu

say() { echo "setup: $*" >&2; }

apt_install() { # as root, or where sudo asks for no password
    command -v apt-get >/dev/null || return 1
    local sudo=""
    if [ "$(id -u)" != 0 ]; then
        sudo -n true 2>/dev/null || return 1
        sudo="sudo -n"
    fi
    say "installing $* with apt"
    $sudo apt-get -qq update && $sudo env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y "$@" >/dev/null
}

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

find_python() { # the caller's PYTHON=... first, then the machine's default, then a newer one beside it
    for python in ${PYTHON:-} python3 python3.13 python3.12 python3.11; do
        if new_enough "$python"; then
            echo "$python"
            return
        fi
    done
    say "Python 3.11 or later is needed, found $(python3 --version 2>/dev/null || echo none); install it, or name it: make setup PYTHON=/path/to/python3.11"
    return 1
}

make_venv() {
    if new_enough .venv/bin/python && .venv/bin/python -m pip --version >/dev/null 2>&1; then return; fi
    local python package
    python=$(find_python)
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then # Debian has these in a separate package
        package=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
        apt_install "$package" || { say "$python cannot make virtual environments; install $package (apt-get install $package)"; return 1; }
    fi
    "$python" -m venv --clear .venv
}

java_is_enough() { # "17.0.15" is 17, the old "1.8.0" is 1; JAVA_HOME first, as in Spark
    local version
    version=$("${JAVA_HOME:+$JAVA_HOME/bin/}java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p')
    [ "${version:-0}" -ge 17 ]
}

ensure_java() { # Debian 12 has 17; releases without it have a later default
    if java_is_enough; then return; fi
    apt_install openjdk-17-jre-headless || apt_install default-jre-headless || true
    java_is_enough || say "no Java 17 or later, so everything that needs Spark will be skipped; install openjdk-17-jre-headless (apt-get install openjdk-17-jre-headless)"
}

ensure_namespaces() { # only root can make them, so only root needs the tools
    if [ "$(id -u)" != 0 ]; then return; fi
    local program
    for program in ip:iproute2 nft:nftables ethtool:ethtool cc:gcc; do
        if command -v "${program%:*}" >/dev/null; then continue; fi
        apt_install "${program#*:}" || true
        command -v "${program%:*}" >/dev/null || say "no ${program%:*}, so the tests with real packet loss will be skipped; install ${program#*:} (apt-get install ${program#*:})"
    done
}

ensure_browser() {
    if command -v chromium >/dev/null || command -v google-chrome >/dev/null; then return; fi
    apt_install --no-install-recommends chromium || true
    command -v chromium >/dev/null || say "no Chromium, so the tests that look at a report in a browser will be skipped; install chromium (apt-get install chromium)"
}

case "${1:-}" in
venv) make_venv ;;
java) ensure_java ;;
namespaces) ensure_namespaces ;;
browser) ensure_browser ;;
*) say "usage: tools/setup.sh venv | java | namespaces | browser"; exit 2 ;;
esac
