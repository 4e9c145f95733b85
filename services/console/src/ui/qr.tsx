// QR codes, drawn as a path, so that no page needs leave to load pictures from data addresses.

import { create } from 'qrcode';

/** The light border that readers of codes need, in modules. */
const quiet = 4;

/** A QR code of a text. Beside it the text itself must stand, for those who cannot scan. */
export function QrCode({ text, label, size = 220 }: { text: string; label: string; size?: number }) {
  const { data, size: modules } = create(text, { errorCorrectionLevel: 'M' }).modules;
  const edge = modules + 2 * quiet;
  let dark = '';
  for (let row = 0; row < modules; row++) {
    for (let column = 0; column < modules; column++) {
      if (data[row * modules + column] === 1) dark += `M${column + quiet} ${row + quiet}h1v1h-1z`;
    }
  }
  return (
    <svg
      role="img"
      aria-label={label}
      width={size}
      height={size}
      viewBox={`0 0 ${edge} ${edge}`}
      shapeRendering="crispEdges"
      style={{ maxWidth: '100%' }}
    >
      <rect width={edge} height={edge} fill="#fff" />
      <path d={dark} fill="#000" />
    </svg>
  );
}
