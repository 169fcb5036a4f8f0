/* An Ethernet switch in a process, for kernels without netem. Each port is a TAP device "eth0" in a network namespace.
 *
 * A frame passes: sender -> uplink of its port (bandwidth, queue) -> switch -> downlink of each receiving port
 * (bandwidth, queue) -> random loss -> delay and jitter -> receiver. A queue drops what does not fit (drop-tail). A
 * frame takes as long as on a cable: preamble, checksum and gap count. A multicast crosses the uplink once and is
 * copied to every port that has joined its group, by the reports that hosts send (IGMP, MLD); a group that nobody ever
 * joined goes everywhere. Unicast goes where its address was last seen. Jitter reorders.
 *
 * Hosts have network cards that cut and join packets (TSO, USO, GRO): what a host hands over in one piece is cut into
 * frames before the uplink, and frames of one flow that come to a host within a moment are handed over in one piece.
 *
 *   switch [port=N,]KEY=VALUE,... ...       one argument for each port, in order
 *
 *   netns      the network namespace of the port's host
 *   down_mbit  bandwidth to the host, 0 for no limit          up_mbit    bandwidth from the host, 0 for no limit
 *   queue      bytes on the cable that may wait for either    loss       share of frames to the host that are lost
 *   delay_us   one way, on the way to the host                jitter_us  at most so much more, at random
 *
 * It says "ready" when all ports are open. Then each line of standard input is an order: "stats" prints the counters of
 * all ports as one line of JSON, "port=N,KEY=VALUE,..." changes a port. It ends with its standard input. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/virtio_net.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#ifndef TUN_F_USO4 /* headers may be older than the kernel */
#define TUN_F_USO4 0x20
#define TUN_F_USO6 0x40
#endif
#ifndef VIRTIO_NET_HDR_GSO_UDP_L4
#define VIRTIO_NET_HDR_GSO_UDP_L4 5
#endif

enum {
    PORTS_MAX = 64,
    FRAME_MAX = 2048,
    WIRE_EXTRA = 24, /* preamble 8, checksum 4, gap 12 */
    PIECE_MAX = 65535, /* what a host hands over, or gets, at once */
    JOINED_MAX = 64,
    BURST = 32,
    TABLE = 4096, /* slots of the table of addresses, a power of two */
    LINE = 512,
    TCP_FIN = 1,
    TCP_PUSH = 8,
    TCP_ACK = 16,
    TCP_CWR = 128,
};
static const int64_t IDLE_NS = 1000000000;
static const int64_t MODERATION_NS = 40000; /* a card does not interrupt its host for every frame */

static void die(const char *what) {
    perror(what);
    exit(1);
}

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

/* xorshift64*: the same losses in every run. */
static double draw(void) {
    static uint64_t state = 0x9E3779B97F4A7C15ull;
    state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
    return (double)((state * 0x2545F4914F6CDD1Dull) >> 11) / 9007199254740992.0;
}

/* Frames are shared by the ports that they go to. */

struct frame {
    int refs, len, from;
    int checksum_start; /* where the sender's card would have summed; 0 if the host did */
    uint8_t data[FRAME_MAX];
    struct frame *next;
};
static struct frame *spare;

static struct frame *frame_new(void) {
    struct frame *frame = spare;
    if (frame) spare = frame->next;
    else if (!(frame = malloc(sizeof *frame))) die("switch: no memory");
    frame->refs = 1;
    return frame;
}

static void frame_drop(struct frame *frame) {
    if (--frame->refs) return;
    frame->next = spare;
    spare = frame;
}

/* What will happen: a heap by time, then by the order in which it was planned. */

struct event {
    int64_t at;
    uint64_t order;
    int to; /* a port, or -1: enters the switch */
    struct frame *frame;
};
static struct event *heap;
static size_t heap_len, heap_cap;

static bool earlier(const struct event *a, const struct event *b) {
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void plan(int64_t at, int to, struct frame *frame) {
    static uint64_t order;
    if (heap_len == heap_cap) {
        heap_cap = heap_cap ? 2 * heap_cap : 4096;
        if (!(heap = realloc(heap, heap_cap * sizeof *heap))) die("switch: no memory");
    }
    struct event event = {at, order++, to, frame};
    size_t i = heap_len++;
    for (; i && earlier(&event, &heap[(i - 1) / 2]); i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
    heap[i] = event;
}

static struct event pop(void) {
    struct event top = heap[0], last = heap[--heap_len];
    size_t i = 0, child;
    while ((child = 2 * i + 1) < heap_len) {
        if (child + 1 < heap_len && earlier(&heap[child + 1], &heap[child])) child++;
        if (!earlier(&heap[child], &last)) break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = last;
    return top;
}

/* A link has a bandwidth, and a queue before it. `free_at` is when it will have sent all that waits. */

struct link {
    double mbit;
    int64_t free_at;
    uint64_t packets, bytes, dropped, waited_ns, waited_max_ns;
};

struct port {
    char netns[96]; /* its path */
    int fd;
    struct link up, down;
    double queue, loss, delay_us, jitter_us;
    uint64_t lost, delivered, refused;
    struct frame *batch[JOINED_MAX]; /* that came within a moment */
    int batch_len;
};
static struct port ports[PORTS_MAX];
static int port_count;

/* When the frame has passed the link; -1 if the queue has no room. */
static int64_t pass(struct link *link, double queue, int len, int64_t now) {
    link->packets++;
    link->bytes += len;
    if (link->mbit <= 0) return now;
    int64_t wait = link->free_at > now ? link->free_at - now : 0;
    double ns_per_byte = 8000.0 / link->mbit;
    if (wait && (double)wait + (len + WIRE_EXTRA) * ns_per_byte > queue * ns_per_byte) {
        link->dropped++;
        return -1;
    }
    link->waited_ns += wait;
    if ((uint64_t)wait > link->waited_max_ns) link->waited_max_ns = wait;
    link->free_at = now + wait + (int64_t)((len + WIRE_EXTRA) * ns_per_byte);
    return link->free_at;
}

/* Ethernet addresses: the port of a host, or the ports that joined a group. */

struct address {
    uint64_t mac; /* 0: free */
    uint64_t members;
};
static struct address addresses[TABLE];

static uint64_t mac_of(const uint8_t *at) {
    uint64_t mac = 0;
    for (int i = 0; i < 6; i++) mac = mac << 8 | at[i];
    return mac;
}

static struct address *find(uint64_t mac) {
    size_t i = (mac * 0x9E3779B97F4A7C15ull) >> 52;
    while (addresses[i].mac && addresses[i].mac != mac) i = (i + 1) % TABLE;
    return &addresses[i];
}

static struct address *find_or_add(uint64_t mac) {
    static int used;
    struct address *found = find(mac);
    if (!found->mac && ++used > TABLE / 2) {
        fprintf(stderr, "switch: more than %d addresses\n", TABLE / 2);
        exit(1);
    }
    found->mac = mac;
    return found;
}

/* Groups: reports are read where they come in, so that none is lost in a queue. */

static void joined(int port, uint64_t mac, bool in) {
    struct address *group = find_or_add(mac);
    if (in) group->members |= 1ull << port;
    else group->members &= ~(1ull << port);
}

static void joined4(int port, const uint8_t *group, bool in) {
    joined(port, 0x01005E000000ull | (uint64_t)(group[1] & 127) << 16 | group[2] << 8 | group[3], in);
}

static void joined6(int port, const uint8_t *group, bool in) {
    joined(port, 0x333300000000ull | (uint64_t)group[12] << 24 | group[13] << 16 | group[14] << 8 | group[15], in);
}

/* Records of IGMPv3 (RFC 3376, 4.2) and MLDv2 (RFC 3810, 5.2): type, words of extra data, sources, group, sources. */
static void records(int port, const uint8_t *at, const uint8_t *end, int count, int group_len) {
    for (; count > 0 && at + 4 + group_len <= end; count--) {
        int type = at[0], sources = at[2] << 8 | at[3];
        bool excludes = type == 2 || type == 4, blocks = type == 6;
        if (!blocks) (group_len == 4 ? joined4 : joined6)(port, at + 4, excludes || sources);
        at += 4 + group_len * (1 + sources) + 4 * at[1];
    }
}

static void snoop4(int port, const uint8_t *ip, const uint8_t *end) {
    const uint8_t *igmp = ip + 4 * (ip[0] & 15);
    if (ip[9] != 2 || igmp + 8 > end) return;
    if (igmp[0] == 0x22) records(port, igmp + 8, end, igmp[6] << 8 | igmp[7], 4);
    else if (igmp[0] == 0x12 || igmp[0] == 0x16 || igmp[0] == 0x17) joined4(port, igmp + 4, igmp[0] != 0x17);
}

static void snoop6(int port, const uint8_t *ip, const uint8_t *end) {
    const uint8_t *icmp = ip + 40;
    if (ip[6] != 0 || icmp + 8 > end || icmp[0] != 58) return; /* MLD always has hop-by-hop options */
    icmp += 8 + 8 * icmp[1];
    if (icmp + 24 > end) return;
    if (icmp[0] == 143) records(port, icmp + 8, end, icmp[6] << 8 | icmp[7], 16);
    else if (icmp[0] == 131 || icmp[0] == 132) joined6(port, icmp + 8, icmp[0] == 131);
}

static void snoop(const struct frame *frame) {
    const uint8_t *at = frame->data, *ip = at + 14, *end = at + frame->len;
    int type = at[12] << 8 | at[13];
    if (type == 0x0800 && ip + 20 <= end) snoop4(frame->from, ip, end);
    else if (type == 0x86DD && ip + 40 <= end) snoop6(frame->from, ip, end);
}

/* The cards. Only plain TCP and UDP is cut and joined: no options of IPv6, no fragments. */

struct layout {
    int l4, payload; /* where they start; 0: something else */
    bool is_udp, is_v6;
};

static struct layout layout_of(const uint8_t *data, int len) {
    struct layout at = {0};
    int type = data[12] << 8 | data[13], protocol = 0;
    if (type == 0x0800 && len >= 34 && data[14] == 0x45 && !((data[20] & 0x3F) | data[21])) {
        at.l4 = 34, protocol = data[23];
    } else if (type == 0x86DD && len >= 54) {
        at.l4 = 54, protocol = data[20], at.is_v6 = true;
    }
    at.is_udp = protocol == 17;
    if (protocol == 6 && len >= at.l4 + 20) at.payload = at.l4 + 4 * (data[at.l4 + 12] >> 4);
    else if (at.is_udp && len >= at.l4 + 8) at.payload = at.l4 + 8;
    if (at.payload > len) at.payload = 0;
    return at;
}

static void put16(uint8_t *at, unsigned value) {
    at[0] = (uint8_t)(value >> 8), at[1] = (uint8_t)value;
}

static void put32(uint8_t *at, uint32_t value) {
    put16(at, value >> 16), put16(at + 2, value & 0xFFFF);
}

static uint32_t get32(const uint8_t *at) {
    return (uint32_t)at[0] << 24 | at[1] << 16 | at[2] << 8 | at[3];
}

static unsigned folded(const uint8_t *at, int len, uint32_t sum) {
    for (int i = 0; i < len; i += 2) sum += at[i] << 8 | at[i + 1];
    while (sum >> 16) sum = (sum & 0xFFFF) + (sum >> 16);
    return sum;
}

/* Lengths and checksums for this much payload; what a card would sum is left to the receiving one. */
static void complete(uint8_t *data, struct layout at, int payload_len) {
    int l4_len = at.payload - at.l4 + payload_len;
    if (at.is_udp) put16(data + at.l4 + 4, l4_len);
    if (at.is_v6) {
        put16(data + 18, l4_len);
    } else {
        put16(data + 16, 20 + l4_len);
        put16(data + 24, 0);
        put16(data + 24, ~folded(data + 14, 20, 0) & 0xFFFF);
    }
    int addresses = at.is_v6 ? 22 : 26;
    unsigned pseudo = folded(data + addresses, at.l4 - addresses, (at.is_udp ? 17 : 6) + l4_len);
    put16(data + at.l4 + (at.is_udp ? 6 : 16), pseudo);
}

static void arrived(struct frame *frame, int64_t now);

/* Cut what a host handed over into frames. */
static void cut(int from, const uint8_t *piece, int len, int size, int64_t now) {
    struct layout at = layout_of(piece, len);
    if (!at.payload || !size || at.payload + size > FRAME_MAX) return;
    for (int done = 0, number = 0; done < len - at.payload; done += size, number++) {
        int part = len - at.payload - done < size ? len - at.payload - done : size;
        struct frame *frame = frame_new();
        frame->from = from;
        frame->len = at.payload + part;
        frame->checksum_start = at.l4;
        memcpy(frame->data, piece, at.payload);
        memcpy(frame->data + at.payload, piece + at.payload + done, part);
        if (!at.is_v6) put16(frame->data + 18, (piece[18] << 8 | piece[19]) + number);
        if (!at.is_udp) {
            put32(frame->data + at.l4 + 4, get32(piece + at.l4 + 4) + done);
            if (done + part < len - at.payload) frame->data[at.l4 + 13] &= ~(TCP_PUSH | TCP_FIN);
            if (done) frame->data[at.l4 + 13] &= ~TCP_CWR;
        }
        complete(frame->data, at, part);
        arrived(frame, now);
    }
}

/* Whether a frame continues a piece of `count` frames that began with `first`, as GRO of the kernel sees it. */
static bool continues(const struct frame *first, const struct frame *last, const struct frame *next, int count) {
    const uint8_t *a = first->data, *b = next->data;
    struct layout at = layout_of(a, first->len), other = layout_of(b, next->len);
    int size = first->len - at.payload, head = at.is_v6 ? 4 : 2;
    if (!at.payload || at.payload != other.payload || at.l4 != other.l4 || at.is_udp != other.is_udp) return false;
    if (last->len != first->len || next->len > first->len || next->len == other.payload) return false;
    if (first->len + count * size + size > PIECE_MAX) return false;
    if (memcmp(a, b, 14 + head) || memcmp(a + 22, b + 22, 2)) return false; /* kinds; TTL and protocol of IPv4 */
    if (memcmp(a + (at.is_v6 ? 20 : 26), b + (at.is_v6 ? 20 : 26), at.l4 - (at.is_v6 ? 20 : 26))) return false;
    if (memcmp(a + at.l4, b + at.l4, 4)) return false;
    if (at.is_udp) return true;
    return get32(b + at.l4 + 4) == get32(a + at.l4 + 4) + (uint32_t)(count * size) && /* in sequence */
           !memcmp(a + at.l4 + 8, b + at.l4 + 8, 5) && !memcmp(a + at.l4 + 14, b + at.l4 + 14, 2) &&
           !((a[at.l4 + 13] | b[at.l4 + 13]) & ~(TCP_PUSH | TCP_ACK)) && !(last->data[at.l4 + 13] & TCP_PUSH) &&
           !memcmp(a + at.l4 + 20, b + at.l4 + 20, at.payload - at.l4 - 20);
}

/* Hand frames over in one piece. */
static void hand_over(struct port *port, struct frame **frames, int count) {
    struct frame *first = frames[0];
    struct layout at = layout_of(first->data, first->len);
    struct virtio_net_hdr card = {0};
    struct iovec parts[JOINED_MAX + 2] = {{&card, sizeof card}, {first->data, (size_t)first->len}};
    uint8_t head[256];
    int used = 2, total = first->len;
    if (count > 1) {
        memcpy(head, first->data, at.payload);
        parts[1] = (struct iovec){head, (size_t)at.payload};
        for (int i = 0; i < count; i++, used++)
            parts[used] = (struct iovec){frames[i]->data + at.payload, (size_t)(frames[i]->len - at.payload)};
        for (int i = 1; i < count; i++) total += frames[i]->len - at.payload;
        if (!at.is_udp) head[at.l4 + 13] |= frames[count - 1]->data[at.l4 + 13] & TCP_PUSH;
        complete(head, at, total - at.payload);
        card.gso_type = at.is_udp ? VIRTIO_NET_HDR_GSO_UDP_L4
                                  : at.is_v6 ? VIRTIO_NET_HDR_GSO_TCPV6 : VIRTIO_NET_HDR_GSO_TCPV4;
        card.gso_size = (uint16_t)(first->len - at.payload);
        card.hdr_len = (uint16_t)at.payload;
    }
    if (count > 1 || first->checksum_start) {
        card.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM;
        card.csum_start = (uint16_t)at.l4;
        card.csum_offset = at.is_udp ? 6 : 16;
    }
    if (writev(port->fd, parts, used) > 0) port->delivered += count;
    else port->refused += count;
    for (int i = 0; i < count; i++) frame_drop(frames[i]);
}

static void flush(struct port *port) {
    for (int at = 0, count; at < port->batch_len; at += count) {
        struct frame **first = port->batch + at;
        for (count = 1; at + count < port->batch_len; count++)
            if (!continues(*first, first[count - 1], first[count], count)) break;
        hand_over(port, first, count);
    }
    port->batch_len = 0;
}

/* The way of a frame. */

static uint64_t receivers(const struct frame *frame) {
    uint64_t to = mac_of(frame->data), all = port_count == 64 ? ~0ull : (1ull << port_count) - 1;
    bool control = to >> 8 == 0x01005E0000ull || to == 0x333300000001ull; /* 224.0.0.x and ff02::1: never pruned */
    struct address *known = control ? NULL : find(to);
    return (known && known->mac ? known->members : all) & ~(1ull << frame->from);
}

static void enter(struct frame *frame, int64_t at) {
    uint64_t to = receivers(frame);
    for (int i = 0; i < port_count; i++) {
        struct port *port = &ports[i];
        if (!(to >> i & 1)) continue;
        int64_t sent = pass(&port->down, port->queue, frame->len, at);
        if (sent < 0) continue;
        if (port->loss > 0 && draw() < port->loss) {
            port->lost++;
            continue;
        }
        frame->refs++;
        plan(sent + (int64_t)(1e3 * (port->delay_us + port->jitter_us * draw())), i, frame);
    }
    frame_drop(frame);
}

static void arrived(struct frame *frame, int64_t now) {
    struct port *port = &ports[frame->from];
    uint64_t source = mac_of(frame->data + 6);
    if (!(source >> 40 & 1)) find_or_add(source)->members = 1ull << frame->from;
    if (frame->data[0] & 1) snoop(frame);
    int64_t sent = pass(&port->up, port->queue, frame->len, now);
    if (sent < 0) frame_drop(frame);
    else if (sent == now) enter(frame, now);
    else plan(sent, -1, frame);
}

static void deliver(struct port *port, struct frame *frame) {
    port->batch[port->batch_len++] = frame;
    if (port->batch_len == JOINED_MAX) flush(port);
}

static void run_until(int64_t now) {
    while (heap_len && heap[0].at <= now) {
        struct event event = pop();
        if (event.to < 0) enter(event.frame, event.at);
        else deliver(&ports[event.to], event.frame);
    }
    for (int i = 0; i < port_count; i++) flush(&ports[i]);
}

static void read_port(int number) {
    static uint8_t piece[PIECE_MAX + 64];
    struct virtio_net_hdr card;
    struct iovec parts[2] = {{&card, sizeof card}, {piece, sizeof piece}};
    for (int n = 0; n < BURST; n++) {
        int len = (int)readv(ports[number].fd, parts, 2) - (int)sizeof card;
        if (len < 14) return;
        if (card.gso_type != VIRTIO_NET_HDR_GSO_NONE) {
            cut(number, piece, len, card.gso_size, now_ns());
            continue;
        }
        struct frame *frame = frame_new();
        frame->from = number;
        frame->len = len < FRAME_MAX ? len : FRAME_MAX;
        frame->checksum_start = card.flags & VIRTIO_NET_HDR_F_NEEDS_CSUM ? card.csum_start : 0;
        memcpy(frame->data, piece, frame->len);
        arrived(frame, now_ns());
    }
}

/* Orders. */

static void set(struct port *port, const char *key, const char *value) {
    double number = atof(value);
    if (!strcmp(key, "netns")) snprintf(port->netns, sizeof port->netns, "/run/netns/%s", value);
    else if (!strcmp(key, "down_mbit")) port->down.mbit = number;
    else if (!strcmp(key, "up_mbit")) port->up.mbit = number;
    else if (!strcmp(key, "queue")) port->queue = number;
    else if (!strcmp(key, "loss")) port->loss = number;
    else if (!strcmp(key, "delay_us")) port->delay_us = number;
    else if (!strcmp(key, "jitter_us")) port->jitter_us = number;
    else {
        fprintf(stderr, "switch: no setting %s\n", key);
        exit(2);
    }
}

static void set_all(struct port *port, char *text) {
    for (char *rest, *word = strtok_r(text, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
        char *value = strchr(word, '=');
        if (!value) {
            fprintf(stderr, "switch: %s: not KEY=VALUE\n", word);
            exit(2);
        }
        *value++ = 0;
        if (!strcmp(word, "port")) port = &ports[atoi(value) % PORTS_MAX];
        else set(port, word, value);
    }
}

static void print_link(const char *name, const struct link *link) {
    printf("\"%s\": {\"packets\": %lu, \"bytes\": %lu, \"dropped\": %lu, \"waited_us\": %lu, \"waited_max_us\": %lu}, ",
           name, link->packets, link->bytes, link->dropped, link->waited_ns / 1000, link->waited_max_ns / 1000);
}

static void print_stats(void) {
    for (int i = 0; i < port_count; i++) {
        struct port *port = &ports[i];
        printf("%s{", i ? ", " : "[");
        print_link("up", &port->up);
        print_link("down", &port->down);
        printf("\"lost\": %lu, \"delivered\": %lu, \"refused\": %lu}", port->lost, port->delivered, port->refused);
        port->up.waited_max_ns = port->down.waited_max_ns = 0; /* the longest since the last question */
    }
    printf("]\n");
    fflush(stdout);
}

static void obey(void) {
    char line[LINE];
    if (!fgets(line, sizeof line, stdin)) exit(0);
    line[strcspn(line, "\n")] = 0;
    if (!strcmp(line, "stats")) print_stats();
    else set_all(&ports[0], line);
}

static void open_port(struct port *port) {
    int netns = open(port->netns, O_RDONLY);
    if (netns < 0 || setns(netns, CLONE_NEWNET)) die(port->netns);
    close(netns);
    struct ifreq request = {.ifr_name = "eth0", .ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};
    unsigned cards = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_USO4 | TUN_F_USO6;
    port->fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK);
    if (port->fd < 0 || ioctl(port->fd, TUNSETIFF, &request)) die("switch: /dev/net/tun");
    if (ioctl(port->fd, TUNSETOFFLOAD, cards)) die("switch: a kernel before 6.2");
}

int main(int argc, char **argv) {
    struct pollfd waits[PORTS_MAX + 1];
    port_count = argc - 1;
    if (port_count < 1 || port_count > PORTS_MAX) {
        fprintf(stderr, "switch: 1 to %d ports, one argument for each\n", PORTS_MAX);
        return 2;
    }
    for (int i = 0; i < port_count; i++) {
        ports[i].queue = 256 * 1024;
        set_all(&ports[i], argv[i + 1]);
        open_port(&ports[i]);
        waits[i] = (struct pollfd){ports[i].fd, POLLIN, 0};
    }
    waits[port_count] = (struct pollfd){STDIN_FILENO, POLLIN, 0};
    setvbuf(stdin, NULL, _IONBF, 0); /* or poll would not see a second line that was read with the first */
    prctl(PR_SET_TIMERSLACK, 1);
    struct sched_param first = {.sched_priority = 50}; /* a switch does not wait for its hosts, if it has the right */
    sched_setscheduler(0, SCHED_RR, &first);
    printf("ready\n");
    fflush(stdout);
    for (;;) {
        int64_t now = now_ns();
        run_until(now);
        int64_t wait = heap_len ? heap[0].at + MODERATION_NS - now_ns() : IDLE_NS;
        wait = wait < 0 ? 0 : wait > IDLE_NS ? IDLE_NS : wait;
        struct timespec timeout = {wait / 1000000000, wait % 1000000000};
        if (ppoll(waits, port_count + 1, &timeout, NULL) <= 0) continue;
        for (int i = 0; i < port_count; i++)
            if (waits[i].revents & POLLIN) read_port(i);
        if (waits[port_count].revents) obey();
    }
}
