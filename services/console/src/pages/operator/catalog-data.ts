// The catalog as operators see it: the public list, whole.

import { useQuery } from '@tanstack/react-query';

import { answer, api, type Schemas } from '../../api/client';

export type Model = Schemas['PublicModel'];

const pageSize = 200;
/** The catalog has at most 10,000 models. */
const maxPages = 50;

/** All models, those out of service too, by id. */
export async function loadCatalog(): Promise<Model[]> {
  const models: Model[] = [];
  for (let page = 1; page <= maxPages; page++) {
    const { data } = await answer(api.GET('/api/v1/models', { params: { query: { page, page_size: pageSize } } }));
    models.push(...(data?.list ?? []));
    if (models.length >= (data?.total ?? 0) || (data?.list.length ?? 0) === 0) break;
  }
  return models;
}

export function useCatalog() {
  return useQuery({ queryKey: ['admin', 'catalog', 'models'], queryFn: loadCatalog });
}

/** Where the editor of a model is. No id has a tilde, so `~new` is none. */
export function modelPath(id: string): string {
  return `/catalog/${id.split('/').map(encodeURIComponent).join('/')}`;
}

export const newModel = '~new';

const units: Record<string, string> = {
  per_1m_tokens: 'per 1M tokens',
  per_image: 'per image',
  per_minute: 'per minute of audio',
};

/** A pricing unit in words. */
export function unitWords(unit: string): string {
  return units[unit] ?? unit.replaceAll('_', ' ');
}

/** Whether a model is served, and until when. */
export function stateOf(model: Model, now: number): { word: string; tone: 'good' | 'warning' | 'bad' | 'neutral' } {
  if (!model.active) return { word: 'out of service', tone: 'neutral' };
  const ends = model.deprecated_at === null ? null : Date.parse(model.deprecated_at);
  if (ends !== null && ends <= now) return { word: 'ended', tone: 'neutral' };
  if (model.online_providers === 0) return { word: 'nobody online', tone: 'bad' };
  return ends === null ? { word: 'in service', tone: 'good' } : { word: 'going away', tone: 'warning' };
}
