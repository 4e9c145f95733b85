// What keeps a provider from earning now, the worst first, each with the one next step.

import type { Account, Standing } from './queries';
import { sentence } from './words';

export interface Blocker {
  id: string;
  what: string;
  why: string;
  /** The page of the next step, and what its link says; null where one can only wait. */
  to: string | null;
  step: string;
}

/**
 * The blockers of an account. `running` is the model whose benchmark runs now; empty for none. A provider that
 * may not connect sees only why.
 */
export function blockersOf(me: Account, standings: Standing[], running: string): Blocker[] {
  const shut = shutOut(me);
  if (shut.length > 0) return shut;
  return [...missing(me, running), ...ofModels(me, standings)];
}

function shutOut(me: Account): Blocker[] {
  if (me.status === 'suspended') return me.suspensions.map(suspended);
  if (me.status !== 'rejected') return [];
  const removed = me.label === 'Removed';
  return [
    {
      id: 'rejected',
      what: removed ? 'You were removed from the network' : 'Your application was rejected',
      why: [sentence(me.warning), ...me.next_steps.map(sentence)].filter((text) => text !== '').join(' '),
      to: removed ? '/provider/penalties' : '/provider/settings',
      step: removed ? 'See the penalty' : 'Ask for another review',
    },
  ];
}

const causes: Record<Account['suspensions'][number]['cause'], string> = {
  admin: 'An operator suspended the account',
  refund: 'Your collateral is being refunded',
  card: 'A card payment of your collateral was reversed',
  exit: 'Collateral is leaving the chain',
};

function suspended(cause: Account['suspensions'][number]): Blocker {
  return {
    id: cause.cause,
    what: causes[cause.cause],
    why: [sentence(cause.meaning), sentence(cause.reason)].filter((text) => text !== '').join(' '),
    to: cause.cause === 'admin' ? null : '/provider/collateral',
    step: cause.cause === 'admin' ? 'Ask the operators why' : 'See your collateral',
  };
}

const gpuRule =
  'The rule: NVIDIA with at least 8 GB and compute capability 8.0, or Apple Silicon with 16 GB and Ollama. ' +
  'An operator can waive it in a review, for external endpoints for example.';

function missing(me: Account, running: string): Blocker[] {
  const found: Blocker[] = [];
  if (!me.collateral.confirmed) {
    found.push({
      id: 'collateral',
      what: 'Collateral is not confirmed',
      why:
        'Collateral stands behind your answers. A deposit counts once it is in a final block, or once the card processor has ' +
        'confirmed it.',
      to: '/provider/collateral',
      step: 'Deposit collateral',
    });
  }
  if (!me.online) {
    found.push({
      id: 'offline',
      what: 'No agent is connected',
      why: 'Requests reach your machine over the agent’s connection. Without one, and without a healthy external endpoint, none comes.',
      to: '/provider/start',
      step: 'Install and run the agent',
    });
  }
  // Where no machine was ever seen, connecting one is the step.
  if (!me.gpu.eligible && !me.gpu.waived && (me.online || me.gpu.shortfall !== '')) {
    found.push({
      id: 'gpu',
      what: 'No machine fulfils the GPU rule',
      why: `${sentence(me.gpu.shortfall)} ${gpuRule}`.trim(),
      to: '/provider/models',
      step: 'See your machines',
    });
  }
  if (!me.benchmark.passed) found.push(benchmark(me, running));
  if (me.status === 'under_review') {
    found.push({
      id: 'review',
      what: 'An operator looks at your application',
      why: 'Nothing is to be done for it. You cannot become active before the decision.',
      to: null,
      step: 'Wait for the decision',
    });
  }
  return found;
}

function benchmark(me: Account, running: string): Blocker {
  const expired = me.benchmark.expires_at !== null;
  return {
    id: 'benchmark',
    what:
      running !== ''
        ? 'A benchmark is running'
        : expired
          ? 'Your benchmark does not count any more'
          : 'No benchmark is passed yet',
    why:
      running !== ''
        ? `${running} is being measured. Keep the agent connected until it ends.`
        : 'A benchmark runs by itself once a model is connected and healthy. A passed one counts for 30 days.',
    to: '/provider/verification',
    step: running !== '' ? 'Watch the benchmark' : 'See benchmarks, or ask for one',
  };
}

function ofModels(me: Account, standings: Standing[]): Blocker[] {
  const found: Blocker[] = standings
    .filter((one) => one.lane !== 'main')
    .map((one) => ({
      id: `model ${one.model_id}`,
      what: `${one.model_id} gets ${one.lane === 'shut' ? 'no' : 'few'} requests`,
      why: sentence(one.next_step),
      to: one.penalty_id === '' ? '/provider/verification' : '/provider/penalties',
      step: one.penalty_id === '' ? 'See its verification' : 'See the penalty',
    }));
  if (me.online && me.models !== null && me.models.length === 0) {
    found.push({
      id: 'models',
      what: 'No model is offered',
      why: 'A machine is connected, and it offers no model of the catalog.',
      to: '/provider/models',
      step: 'See what your machines offer',
    });
  }
  return found;
}
