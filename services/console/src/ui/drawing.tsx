// Draws a chart on a canvas. Only what the pages use of the library is registered, because that is what
// comes into the bundle.

import { useComputedColorScheme } from '@mantine/core';
import { useReducedMotion } from '@mantine/hooks';
import {
  BarController,
  BarElement,
  CategoryScale,
  Chart as Canvas,
  Legend,
  LinearScale,
  LineController,
  LineElement,
  PointElement,
  Tooltip,
  type ChartConfiguration,
} from 'chart.js';
import { useEffect, useRef } from 'react';

import type { Series } from './chart';

Canvas.register(
  BarController,
  BarElement,
  CategoryScale,
  Legend,
  LinearScale,
  LineController,
  LineElement,
  PointElement,
  Tooltip,
);

interface DrawingProps {
  rows: Record<string, unknown>[];
  at: string;
  series: Series[];
  kind: 'bar' | 'line';
  value: ((n: number) => string) | undefined;
}

// One colour a series, told apart by readers who do not see all colours, too.
// In the dark they are brighter.
const palettes = {
  light: ['#0b7285', '#e8590c', '#4c6ef5', '#5c940d', '#ae3ec9', '#f08c00', '#868e96', '#c2255c'],
  dark: ['#3bc9db', '#ff922b', '#91a7ff', '#94d82d', '#da77f2', '#ffd43b', '#adb5bd', '#f783ac'],
};

export default function Drawing(props: DrawingProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const dark = useComputedColorScheme('light') === 'dark';
  const still = useReducedMotion();
  const config = useConfig(props, dark, still);
  useEffect(() => {
    if (canvas.current === null) return undefined;
    const chart = new Canvas(canvas.current, config);
    return () => chart.destroy();
  }, [config]);
  return <canvas ref={canvas} />;
}

/** The configuration, the same object until something in it changes, so that a chart is not drawn anew for nothing. */
function useConfig(props: DrawingProps, dark: boolean, still: boolean): ChartConfiguration {
  const kept = useRef<{ key: string; config: ChartConfiguration } | null>(null);
  const key = JSON.stringify([props.rows, props.at, props.series, props.kind, dark, still]);
  if (kept.current === null || kept.current.key !== key) kept.current = { key, config: configure(props, dark, still) };
  return kept.current.config;
}

function configure({ rows, at, series, kind, value }: DrawingProps, dark: boolean, still: boolean): ChartConfiguration {
  const text = dark ? '#ced4da' : '#495057';
  const grid = dark ? '#373a40' : '#e9ecef';
  const palette = dark ? palettes.dark : palettes.light;
  const show = (n: number) => (value === undefined ? n.toLocaleString('en-US') : value(n));
  return {
    type: kind,
    data: {
      labels: rows.map((row) => String(row[at])),
      datasets: series.map(({ name, label }, n) => {
        const color = palette[n % palette.length] ?? text;
        return {
          label,
          data: rows.map((row) => (row[name] === null ? null : Number(row[name]))), // a gap, and not 0
          backgroundColor: color,
          borderColor: color,
          borderWidth: kind === 'line' ? 2 : 0,
          pointRadius: 2,
          borderRadius: kind === 'bar' ? 3 : 0,
          maxBarThickness: 56,
        };
      }),
    },
    options: {
      animation: still ? false : { duration: 250 },
      maintainAspectRatio: false,
      interaction: { mode: 'index', intersect: false },
      scales: {
        x: {
          stacked: kind === 'bar',
          ticks: { color: text, maxRotation: 0, autoSkipPadding: 16 },
          grid: { display: false },
        },
        y: {
          stacked: kind === 'bar',
          beginAtZero: true,
          ticks: { color: text, maxTicksLimit: 6, callback: (n) => show(Number(n)) },
          grid: { color: grid },
        },
      },
      plugins: {
        legend: { display: series.length > 1, labels: { color: text, boxWidth: 12 } },
        tooltip: { callbacks: { label: (item) => `${item.dataset.label ?? ''}: ${show(Number(item.raw))}` } },
      },
    },
  };
}
