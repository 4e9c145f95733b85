import { describe, expect, it } from 'vitest';

import { keyVariable, samples } from './samples';

const wish = { base: 'https://site.example', model: 'acme/tiny-1b', stream: false };

describe('samples', () => {
  it.each(['llm', 'multimodal', 'embedding', 'image', 'audio'])('has four languages for %s', (category) => {
    const all = samples({ ...wish, category });
    expect(all.map(({ language }) => language)).toEqual(['curl', 'Python', 'JavaScript', 'Go']);
    for (const { code } of all) {
      expect(code).toContain('https://site.example/v1');
      expect(code).toContain('acme/tiny-1b');
      expect(code).toContain(keyVariable);
    }
  });

  it('asks for a stream in each language', () => {
    for (const { code } of samples({ ...wish, category: 'llm', stream: true }))
      expect(code).toMatch(/stream["']?\s*[:=]\s*[tT]rue/);
  });

  it('imports what a program in Go uses, and nothing else', () => {
    const go = (stream: boolean) =>
      samples({ ...wish, category: 'llm', stream }).find(({ language }) => language === 'Go')?.code ?? '';
    expect(go(false)).toContain('\t"io"\n');
    expect(go(false)).not.toContain('"bufio"');
    expect(go(true)).toContain('\t"bufio"\n');
    expect(go(true)).not.toContain('\t"io"\n');
  });

  it('quotes what a shell would take apart', () => {
    const curl = samples({ ...wish, model: `a'b"c`, category: 'llm' })[0]?.code ?? '';
    expect(curl).toContain(`"model":"a'\\''b\\"c"`);
  });
});
