# What has another name since the dumps were made. Each rule is for the heads of
# COPY alone: "COPY schema.table (column, column) FROM stdin;". sed -E reads it.
s/^COPY billing\.witness /COPY billing.request_report /
s/^COPY billing\.receipt /COPY billing.work_receipt /
/^COPY (billing\.usage_settlement|settlement\.earning_[a-z]+) /s/\bwitness\b/evidence_source/
/^COPY settlement\.earning_correction /s/\bwas_witness\b/was_evidence_source/
