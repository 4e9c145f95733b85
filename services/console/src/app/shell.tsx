// The frame of all pages: where one can go, who is signed in, and how it looks.

import {
  ActionIcon,
  AppShell,
  Burger,
  Button,
  Group,
  Menu,
  NavLink as Item,
  ScrollArea,
  SegmentedControl,
  Text,
  Tooltip,
  useComputedColorScheme,
  useMantineColorScheme,
} from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { Suspense, useEffect, useRef } from 'react';
import { Link, NavLink, Outlet, useLocation } from 'react-router';

import { isOperatorSite } from '../api/session';
import { MoonIcon, SunIcon } from '../ui/icons';
import { useLeave } from './leave';
import { menu } from './menu';
import { usePreferences } from './preferences';
import { useSession } from './session';

export function Shell() {
  const [opened, { toggle, close }] = useDisclosure(false);
  const session = useSession();
  const location = useLocation();
  const main = useRef<HTMLElement>(null);
  const first = useRef(true);

  // A reader who navigates with the keyboard or hears the page starts at its content.
  useEffect(() => {
    if (first.current) {
      first.current = false;
      return;
    }
    close();
    main.current?.focus({ preventScroll: true });
    window.scrollTo(0, 0);
  }, [location.pathname, close]);

  return (
    <AppShell
      header={{ height: 56 }}
      navbar={{ width: 230, breakpoint: 'sm', collapsed: { mobile: !opened } }}
      padding="md"
    >
      <a className="skip" href="#content">
        Skip to the content
      </a>
      <AppShell.Header>
        <Group h="100%" px={{ base: 'xs', xs: 'md' }} justify="space-between" gap="xs" wrap="nowrap">
          <Group gap="xs" wrap="nowrap" miw={0}>
            <Burger
              opened={opened}
              onClick={toggle}
              hiddenFrom="sm"
              size="sm"
              aria-label={opened ? 'Close the menu' : 'Open the menu'}
              aria-expanded={opened}
            />
            <Text component={Link} to="/" fw={700} fz={{ base: 13, xs: 'md' }} c="inherit" td="none" lineClamp={1}>
              {isOperatorSite ? 'Operators' : 'Inference marketplace'}
            </Text>
          </Group>
          <Group gap="xs" wrap="nowrap">
            <ColorScheme />
            <Account />
          </Group>
        </Group>
      </AppShell.Header>
      <AppShell.Navbar p="xs" aria-label="Pages">
        <ScrollArea type="auto" scrollbarSize={6} viewportProps={{ tabIndex: -1 }}>
          {menu(session).map((group) => (
            <div key={group.name} role="group" aria-label={group.name}>
              <Text size="xs" fw={600} c="var(--muted)" px="sm" pt="xs" pb={2}>
                {group.name}
              </Text>
              {group.items.map((item) => (
                <Item
                  key={item.to}
                  className="place"
                  component={NavLink}
                  to={item.to}
                  end={item.to === '/' || item.to === '/provider'}
                  label={item.label}
                />
              ))}
            </div>
          ))}
          <Zone />
        </ScrollArea>
      </AppShell.Navbar>
      <AppShell.Main ref={main} id="content" tabIndex={-1} style={{ outline: 'none' }}>
        <Suspense fallback={<Text role="status">Loading …</Text>}>
          <Outlet />
        </Suspense>
      </AppShell.Main>
    </AppShell>
  );
}

function ColorScheme() {
  const { setColorScheme } = useMantineColorScheme();
  const dark = useComputedColorScheme('light', { getInitialValueInEffect: false }) === 'dark';
  const label = dark ? 'Light colours' : 'Dark colours';
  return (
    <Tooltip label={label}>
      <ActionIcon variant="default" aria-label={label} onClick={() => setColorScheme(dark ? 'light' : 'dark')}>
        {dark ? <SunIcon /> : <MoonIcon />}
      </ActionIcon>
    </Tooltip>
  );
}

function Zone() {
  const { zone, setZone } = usePreferences();
  return (
    <SegmentedControl
      fullWidth
      size="xs"
      mt="md"
      aria-label="Zone of times"
      value={zone}
      onChange={(value) => setZone(value === 'local' ? 'local' : 'utc')}
      data={[
        { value: 'utc', label: 'UTC' },
        { value: 'local', label: 'Local time' },
      ]}
    />
  );
}

function Account() {
  const session = useSession();
  const leave = useLeave();
  if (session.kind === 'unknown' || session.kind === 'lost') return null;
  if (session.kind === 'out') {
    return (
      <Button component={Link} to="/sign-in" size="xs">
        Sign in
      </Button>
    );
  }
  const name =
    session.kind === 'user' ? session.user.display_name || session.user.email || 'Account' : session.operator.name;
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <Button size="xs" variant="default" maw={{ base: 96, xs: 160 }}>
          <Text span inherit truncate>
            {name}
          </Text>
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        {session.kind === 'user' && (
          <Menu.Item component={Link} to="/settings">
            Settings
          </Menu.Item>
        )}
        <Menu.Item onClick={() => void leave('/')}>Sign out</Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
