import { Anchor, Stack, Text } from '@mantine/core';
import { useState } from 'react';
import { Link, useNavigate, useParams } from 'react-router';

import { answer, api } from '../../api/client';
import { useNow } from '../../app/live';
import { count } from '../../format/quantity';
import { Empty, Loaded, Page, Section } from '../../ui/page';
import { Facts } from '../../ui/table';
import { Id, Moment, State } from '../../ui/text';
import { Act } from './act';
import { needs } from './allowed';
import { modelPath, newModel, stateOf, useCatalog, type Model as CatalogModel } from './catalog-data';
import { History } from './history';
import { useDone } from './lists';
import { ModelChanges } from './model-changes';
import { draftOf, empty } from './model-draft';
import { Editor } from './model-editor';
import { ModelFiles } from './model-files';

export default function Model() {
  const id = useParams()['*'] ?? '';
  const navigate = useNavigate();
  const query = useCatalog();
  if (id === newModel) {
    return (
      <Page title="New model" lead="Fill in the form. What is wrong stands at its field while you type.">
        <Editor initial={empty} current={null} onSaved={(saved) => void navigate(modelPath(saved))} />
      </Page>
    );
  }
  return (
    <Page title={id} lead="What the model is, what consumers pay for it, and what providers get.">
      <Loaded query={query}>
        {(models) => {
          const model = models.find((one) => one.id === id);
          return model === undefined ? <Absent id={id} /> : <Existing key={model.id} model={model} />;
        }}
      </Loaded>
    </Page>
  );
}

function Absent({ id }: { id: string }) {
  return (
    <Empty
      action={
        <Anchor component={Link} to="/catalog" inherit>
          To the catalog
        </Anchor>
      }
    >
      The catalog has no model {id}. Look for it in the list.
    </Empty>
  );
}

function Existing({ model }: { model: CatalogModel }) {
  // The editor keeps what it began with, and begins anew once a change is saved.
  const [base, setBase] = useState({ model, saved: 0 });
  return (
    <>
      <Now model={model} />
      <Editor
        key={base.saved}
        initial={draftOf(base.model)}
        current={base.model}
        onSaved={(_, saved) => setBase((before) => ({ model: saved ?? before.model, saved: before.saved + 1 }))}
      />
      <ModelChanges model={model.id} />
      <ModelFiles model={model} />
      <Serving model={model} />
      <History subject={model.id} service="catalog" />
    </>
  );
}

function Now({ model }: { model: CatalogModel }) {
  const now = useNow();
  const { word, tone } = stateOf(model, now);
  const { guaranteed_context_length: guaranteed, guaranteed_context_basis: basis } = model;
  return (
    <Section title="Now" json={model}>
      <Facts
        facts={[
          ['Id', <Id key="id" value={model.id} what="model id" full />],
          [
            'State',
            <State key="state" tone={tone}>
              {word}
            </State>,
          ],
          ['Providers online', model.online_providers],
          [
            'Guaranteed context',
            guaranteed === null ? 'none: nobody is online' : `${count(guaranteed)} tokens (${basis})`,
          ],
          ['Quantizations online', model.quantizations.join(', ') || '–'],
          ['Token Plan', coverage[model.plan_coverage] ?? model.plan_coverage],
          ['In the catalog since', <Moment key="created" at={model.created_at} />],
        ]}
      />
    </Section>
  );
}

const coverage: Record<string, string> = {
  tokens: 'pays, of its tokens',
  images: 'pays, of its images a day',
  money: 'pays while its allowance is in money',
  undrawn: 'pays without drawing on its allowance',
  none: 'does not pay, because the model is premium',
  unneeded: 'is not needed, because the model costs nothing',
};

/** What can be asked of those who serve the model. */
function Serving({ model }: { model: CatalogModel }) {
  const done = useDone();
  return (
    <Section title="Those who serve it">
      <Stack align="flex-start" gap="xs">
        <Text size="sm" c="var(--muted)">
          A warm-up asks connected providers to load the model before consumers do.
        </Text>
        <Act
          label="Warm up"
          title={`Warm up ${model.id}?`}
          permission={needs['POST /api/v1/admin/warmups']}
          blocked={model.online_providers === 0 ? 'No provider is online for this model.' : ''}
          facts={[
            ['To whom', 'all connected providers of the model'],
            ['Second person', 'none is needed'],
          ]}
          run={() => answer(api.POST('/api/v1/admin/warmups', { body: { model_id: model.id, provider_id: '' } }))}
          done={() => done('The hubs are told. Each machine is asked at most once in five minutes.')}
        >
          Their machines are asked to load the model. Nobody is paid for it. It ends when hubs are told, not when models
          are loaded.
        </Act>
        <Anchor component={Link} to={`/verification?tab=calibrations&model=${encodeURIComponent(model.id)}`} size="sm">
          Calibrations of the model
        </Anchor>
      </Stack>
    </Section>
  );
}
