import { Anchor, createTheme, Drawer, MantineProvider, Modal } from '@mantine/core';
import { Notifications } from '@mantine/notifications';
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { setNonce } from 'get-nonce';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { RouterProvider } from 'react-router';

import './app/kit';
import './styles.css';

import { ApiError } from './api/error';
import { refresh } from './api/session';
import { PreferencesProvider } from './app/preferences';
import { router } from './app/routes';

const theme = createTheme({
  primaryColor: 'cyan',
  primaryShade: { light: 9, dark: 4 }, // at least 4.5 to 1 against white and against black
  autoContrast: true,
  cursorType: 'pointer',
  fontFamily: 'system-ui, -apple-system, "Segoe UI", Roboto, sans-serif',
  respectReducedMotion: true,
  components: {
    // A link within a text must be seen without its colour.
    Anchor: Anchor.extend({ defaultProps: { underline: 'always' } }),
    // The head of a dialogue is no banner of the page.
    Modal: Modal.extend({ defaultProps: { attributes: { header: { role: 'presentation' } } } }),
    Drawer: Drawer.extend({ defaultProps: { attributes: { header: { role: 'presentation' } } } }),
  },
});

const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 10_000,
      // A refusal stays one. A service that is away is asked once more.
      retry: (failures, error) =>
        failures < 1 && !(error instanceof ApiError && error.status > 0 && error.status < 500),
      refetchOnWindowFocus: true,
    },
  },
});

const nonce = document.querySelector('meta[name="style-nonce"]')?.getAttribute('content') ?? '';
setNonce(nonce); // for the styles that keep a page still behind a dialogue

refresh().catch(() => undefined); // the pages show that the service is away

const root = document.getElementById('root');
if (root !== null) {
  createRoot(root).render(
    <StrictMode>
      <MantineProvider theme={theme} defaultColorScheme="auto" getStyleNonce={() => nonce}>
        <PreferencesProvider>
          <QueryClientProvider client={queries}>
            <Notifications position="top-right" />
            <RouterProvider router={router} />
          </QueryClientProvider>
        </PreferencesProvider>
      </MantineProvider>
    </StrictMode>,
  );
}
