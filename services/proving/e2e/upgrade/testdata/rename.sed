# What has another name since the dumps were made. Each rule is for the heads of
# COPY alone: "COPY schema.table (column, column) FROM stdin;". sed -E reads it.
