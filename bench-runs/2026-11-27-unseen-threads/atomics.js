// Node: workers that wait by Atomics.wait for a lock of their own making (one word), and for messages.
const { Worker, isMainThread, workerData, parentPort } = require('worker_threads');
const fs = require('fs');
const nap = (us) => { const until = process.hrtime.bigint() + BigInt(us) * 1000n; while (process.hrtime.bigint() < until); };
if (isMainThread) {
  const word = new Int32Array(new SharedArrayBuffer(16)); let left = 3, n = 0, ns = 0n;
  for (let k = 0; k < 3; k++) new Worker(__filename, { workerData: word }).on('message', (m) => { n += m.n; ns += BigInt(m.ns); }).on('exit', () => { if (!--left) { console.log(word[1]); if (process.env.OWN) fs.appendFileSync(process.env.OWN, `cond:atomics ${n} ${ns}\n`); } });
} else {
  const word = workerData; let n = 0, ns = 0n;
  for (let i = 0; i < 15; i++) {
    while (Atomics.compareExchange(word, 0, 0, 1) !== 0) { const from = process.hrtime.bigint(); Atomics.wait(word, 0, 1, 100); ns += process.hrtime.bigint() - from; n++; }
    Atomics.add(word, 1, 1); nap(2000); Atomics.store(word, 0, 0); Atomics.notify(word, 0, 1); nap(100);
  }
  parentPort.postMessage({ n, ns: ns.toString() });
}
