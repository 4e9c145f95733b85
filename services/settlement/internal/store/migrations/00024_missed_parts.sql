-- Parts of penalties that were given up are counted for operators, those of the last days (alert PenaltyPartsStuck).

-- +goose Up
CREATE INDEX penalty_part_missed ON penalty_part (due_at) WHERE state = 'missed';
