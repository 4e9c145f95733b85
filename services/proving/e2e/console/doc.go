// Package console drives the console's pages in Debian's Chromium, as visitors, consumers, providers and
// operators see them: on a marketplace in one process that begins with an empty database. The tests of the
// pages themselves are TypeScript, beside the pages: services/console/e2e.
package console
