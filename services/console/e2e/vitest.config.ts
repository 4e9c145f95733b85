import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['e2e/**/*.test.ts'],
    // Each test is told as it ends, because all of them together take minutes.
    reporters: ['verbose'],
    // Limits are for what hangs: nothing here is about time, and a machine may be busy.
    testTimeout: 600_000,
    hookTimeout: 600_000,
    expect: { poll: { timeout: 60_000, interval: 100 } },
    // One browser and one marketplace are shared, so the flows run one after the other.
    fileParallelism: false,
    sequence: { concurrent: false },
  },
});
