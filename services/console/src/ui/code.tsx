import { Box, Group, Tabs } from '@mantine/core';

import { Copy } from './text';

/** Code to copy, in one language a tab. */
export function CodeTabs({ label, codes }: { label: string; codes: { language: string; code: string }[] }) {
  return (
    <Tabs defaultValue={codes[0]?.language ?? ''} keepMounted={false}>
      <Tabs.List aria-label={label}>
        {codes.map(({ language }) => (
          <Tabs.Tab key={language} value={language}>
            {language}
          </Tabs.Tab>
        ))}
      </Tabs.List>
      {codes.map(({ language, code }) => (
        <Tabs.Panel key={language} value={language} pt="xs">
          <CodeBlock code={code} label={`${label} in ${language}`} />
        </Tabs.Panel>
      ))}
    </Tabs>
  );
}

/** One piece of code to copy. */
export function CodeBlock({ code, label }: { code: string; label: string }) {
  return (
    <Box pos="relative">
      <Group pos="absolute" top={6} right={6}>
        <Copy value={code} what="code" />
      </Group>
      <pre className="code" tabIndex={0} aria-label={label}>
        {code}
      </pre>
    </Box>
  );
}
