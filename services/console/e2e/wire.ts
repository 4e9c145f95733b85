// A wire between a browser and the service, which a test cuts: a proxy of HTTP that forwards what it gets.

import { createServer, request, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A cut: of the answers of one path, after so many bytes of the body. */
interface Cut {
  path: string;
  after: number;
}

export interface Wire {
  /** The address of the proxy, for the context of a browser. */
  address: string;
  /** Cuts every answer of a path until the wire is mended, because browsers try some lost calls once more. */
  cut: (at: Cut) => void;
  mend: () => void;
  /** The idempotency keys of the calls of a path, in their order. */
  keysOf: (path: string) => string[];
  close: () => void;
}

export async function startWire(): Promise<Wire> {
  let cut: Cut | null = null;
  const keys: { path: string; key: string }[] = [];
  const server = createServer((asked, answer) => {
    const url = new URL(asked.url ?? '');
    keys.push({ path: url.pathname, key: String(asked.headers['idempotency-key'] ?? '') });
    const onward = request(url, { method: asked.method, headers: asked.headers }, (from) => {
      pass(from, answer, cut?.path === url.pathname ? cut.after : Infinity);
    });
    onward.on('error', () => answer.destroy());
    answer.on('close', () => onward.destroy());
    asked.pipe(onward);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    address: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    cut: (at) => {
      cut = at;
    },
    mend: () => {
      cut = null;
    },
    keysOf: (path) => keys.filter((one) => one.path === path).map(({ key }) => key),
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}

/** Passes an answer on, and breaks it off after so many bytes. With 0 the browser does not even get its head. */
function pass(from: IncomingMessage, answer: ServerResponse, after: number) {
  if (after === 0) {
    from.resume();
    from.on('end', () => answer.destroy()); // the service has done it by then
    return;
  }
  answer.writeHead(from.statusCode ?? 502, from.headers);
  let passed = 0;
  from.on('data', (bytes: Buffer) => {
    passed += bytes.length;
    answer.write(bytes);
    if (passed >= after) {
      from.destroy();
      answer.socket?.end(() => answer.destroy()); // after what was written has left
    }
  });
  from.on('end', () => answer.end());
  from.on('error', () => answer.destroy());
}
