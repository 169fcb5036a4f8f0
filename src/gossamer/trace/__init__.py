"""What happened, in one schema: written by sim and live, read by spec and pipeline.

`schema` says what a row means, `recorder` turns what happens into rows, `writer` streams rows into a Parquet file,
`reader` streams them back as `rows.Rows`, batches of numpy columns; `rows.RowFeed` makes such batches without a file.
Import only the module you need: `schema` and `recorder` cost nothing, the others import numpy or pyarrow.
"""
