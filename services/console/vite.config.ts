import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

// The bundle is committed, so it must not depend on the machine that builds it: names come from
// contents alone, and no source map has a path in it.
export default defineConfig({
  base: '/app/',
  plugins: [react()],
  build: {
    outDir: 'dist',
    emptyOutDir: true,
    target: 'es2022',
    assetsDir: 'assets',
    assetsInlineLimit: 0, // the Content-Security-Policy allows no data: scripts or fonts
    modulePreload: { polyfill: false }, // the polyfill is an inline script
    reportCompressedSize: false,
    sourcemap: false,
  },
  server: {
    proxy: Object.fromEntries(
      ['/api', '/v1', '/healthz', '/readyz', '/openapi.json', '/webhooks', '/sandbox'].map((path) => [
        path,
        process.env.SVC_BASE_URL ?? 'http://127.0.0.1:8080',
      ]),
    ),
  },
});
