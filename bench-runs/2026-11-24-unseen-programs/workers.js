const { Worker, isMainThread, workerData } = require("worker_threads");
if (isMainThread) { const s = new SharedArrayBuffer(64), a = new Int32Array(s); const w = [0, 1, 2].map(i => new Worker(__filename, { workerData: s })); let left = 3;
  for (const x of w) x.on("exit", () => { if (!--left) { console.log(a[1], a[2]); process.exit(10); } }); setTimeout(() => { Atomics.store(a, 0, 1); Atomics.notify(a, 0); }, 50); }
else { const a = new Int32Array(workerData); Atomics.wait(a, 0, 0); for (let i = 0; i < 1000; i++) Atomics.add(a, 1, 1); Atomics.wait(a, 3, 0, 20); Atomics.add(a, 2, 1); }
