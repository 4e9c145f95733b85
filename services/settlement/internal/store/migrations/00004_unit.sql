-- +goose Up
ALTER TABLE earning_line
    ADD COLUMN unit smallint NOT NULL DEFAULT 0 CHECK (unit BETWEEN 0 AND 2),
    ADD CONSTRAINT earning_line_counts CHECK ((unit <> 1 OR prompt_tokens = 0) AND (unit <> 2 OR completion_tokens = 0));
COMMENT ON COLUMN earning_line.unit IS 'What was paid for: 0 tokens, 1 images, which are the completion, 2 milliseconds of audio, which are the prompt, at rates per minute.';
ALTER TABLE earning_correction
    ADD COLUMN unit smallint NOT NULL DEFAULT 0 CHECK (unit BETWEEN 0 AND 2),
    ADD CONSTRAINT earning_correction_counts CHECK ((unit <> 1 OR prompt_tokens = 0) AND (unit <> 2 OR completion_tokens = 0));

-- +goose Down
ALTER TABLE earning_correction DROP CONSTRAINT earning_correction_counts, DROP COLUMN unit;
ALTER TABLE earning_line DROP CONSTRAINT earning_line_counts, DROP COLUMN unit;
