import { Anchor, List } from '@mantine/core';
import { Link } from 'react-router';

import { answer, api } from '../../api/client';
import { dollars } from '../../format/money';
import { Empty, Loaded, Page, Section } from '../../ui/page';
import { Facts } from '../../ui/table';
import { ContactForm } from './enterprise-contact';
import { AgreedTerms } from './enterprise-terms';
import { useLimits } from './queries';
import { atATime, categoryRates } from './rates';

export default function Enterprise() {
  const limits = useLimits();
  return (
    <Page
      title="Enterprise"
      lead={
        <>
          For accounts that need more than the defaults: terms that an operator agrees with you, for all keys of the
          account together.
        </>
      }
    >
      <Section title="What can be agreed">
        <List size="sm" spacing="xs">
          <List.Item>
            Higher rates, or none: of requests a minute and at a time, for the account or for each category of models.
          </List.Item>
          <List.Item>A discount on what is paid from credit. Each receipt shows it as a line of its own.</List.Item>
          <List.Item>Priority: your requests wait ahead of others while all providers of a model are busy.</List.Item>
          <List.Item>Spend caps of a day and a month that only an operator can raise.</List.Item>
        </List>
      </Section>
      <AgreedTerms />
      <Section title="What counts for your account now" json={limits.data}>
        <Loaded query={limits}>
          {(data) =>
            data.limits === null ? (
              <Empty>The account has the defaults.</Empty>
            ) : (
              <Facts
                facts={[
                  [
                    'Requests a minute, for each key',
                    categoryRates(data.limits)
                      .map(({ category, rate }) => `${category} ${rate}`)
                      .join(', '),
                  ],
                  ['Requests at a time, for all keys together', atATime(data.limits)],
                  ['Spend cap of a day', data.limits.day === null ? 'None' : dollars(data.limits.day.bound_usd_str)],
                  [
                    'Spend cap of a month',
                    data.limits.month === null ? 'None' : dollars(data.limits.month.bound_usd_str),
                  ],
                  [
                    'Your own caps',
                    <Anchor component={Link} to="/limits" inherit>
                      Limits
                    </Anchor>,
                  ],
                ]}
              />
            )
          }
        </Loaded>
      </Section>
      <Section
        title="Ask for terms"
        note="Up to 3 messages a day. An operator reads them, and they are deleted after a year."
      >
        <ContactForm
          send={(message, key) =>
            answer(api.POST('/api/v1/consumer/enterprise-contact', { body: { ...message, idempotency_key: key } }))
          }
        />
      </Section>
    </Page>
  );
}
