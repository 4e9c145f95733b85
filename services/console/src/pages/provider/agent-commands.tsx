// How a machine begins to serve: the three commands that the agent's own guide has.

import { Code, List, Stack, Text } from '@mantine/core';

import { CodeBlock } from '../../ui/code';

const commands = [
  {
    title: '1. Install the agent',
    code: 'sh Downloads/install.sh',
    note:
      'It finds the archive for this machine beside itself, verifies its checksum, and copies one program to ~/.local/bin. ' +
      'It needs no root. With --dry-run it only says what it would do.',
  },
  {
    title: '2. Set it up',
    code: `svc-agent setup -service ${window.location.origin} -account key`,
    note:
      'It finds the engines of this machine (vLLM, SGLang, Ollama, llama.cpp), matches their models to the catalog, and asks for ' +
      'your provider key and your wallet address. The key goes to a file that only you may read.',
  },
  {
    title: '3. Run it',
    code: 'svc-agent run',
    note:
      'It connects and serves until you stop it. No port has to be opened. ' +
      '“svc-agent service install” makes it start with the machine.',
  },
];

export function AgentCommands() {
  return (
    <Stack gap="md">
      <Text size="sm">
        You need the archive of the agent for your system (Linux or macOS) and <Code>install.sh</Code> in one folder,
        here <Code>Downloads</Code>. The operators of this marketplace hand them out.
      </Text>
      {commands.map(({ title, code, note }) => (
        <div key={title}>
          <Text fw={600} size="sm" mb={4}>
            {title}
          </Text>
          <CodeBlock code={code} label={title} />
          <Text size="sm" c="var(--muted)" mt={4}>
            {note}
          </Text>
        </div>
      ))}
      <Text size="sm">If something does not work:</Text>
      <List size="sm" spacing={4}>
        <List.Item>
          <Code>svc-agent doctor</Code> names the fault, and what mends it.
        </List.Item>
        <List.Item>
          <Code>svc-agent status</Code> shows the connection, the models and what the account earns.
        </List.Item>
      </List>
    </Stack>
  );
}
