import { Button, Container, Stack, Text, Title } from '@mantine/core';
import { Link, useRouteError } from 'react-router';

/** What stands in place of a page that failed, or whose program has been replaced by a newer one. */
export function Broken() {
  const error = useRouteError();
  // A browser says the same of a connection that is lost and of a file that a newer version has replaced.
  const unloaded = error instanceof TypeError && /import|module/i.test(error.message);
  return (
    <Container py="xl" size="sm">
      <Stack align="flex-start">
        <Title order={1} size="h2">
          {unloaded ? 'This page could not be loaded' : 'This page failed'}
        </Title>
        <Text>
          {unloaded
            ? 'The connection was lost, or the page has been updated. Reload it.'
            : 'Load it again. Nothing that you did was lost on the way to the service.'}
        </Text>
        <Button onClick={() => window.location.reload()}>Load again</Button>
      </Stack>
    </Container>
  );
}

/** The page of addresses that lead nowhere. */
export function NotFound() {
  return (
    <Stack align="flex-start">
      <Title order={1} size="h2">
        There is no such page
      </Title>
      <Button component={Link} to="/" variant="default">
        To the first page
      </Button>
    </Stack>
  );
}
