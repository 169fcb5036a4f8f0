"""PySpark behind the log and behind every experiment. The only package that imports pyspark, and only when used."""
