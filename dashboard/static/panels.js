// What is shown of each kind of daemon, as declarations over the metrics of its snapshots (docs/telemetry.md).

import * as f from './format.js';

const has = (labels, want) => Object.entries(want).every(([name, value]) => labels[name] === value);

/** What a daemon said over time: rates of counters, values of gauges. */
export class Track {
  constructor(most = 3600) {
    this.most = most;
    this.times = [];
    this.series = new Map();
  }

  load(told) {
    this.times = [...told.times];
    this.series = new Map(told.series.map((one) => [`${one.metric} ${JSON.stringify(one.labels)}`, { ...one, values: [...one.values] }]));
  }

  push(time, snapshot, wanted) {
    if (this.times.length && time <= this.times.at(-1)) return;
    if (this.times.length >= this.most) {
      const old = this.most / 10;
      this.times.splice(0, old);
      this.series.forEach((one) => one.values.splice(0, old));
    }
    const before = this.times.length;
    this.times.push(time);
    for (const metric of wanted) {
      const family = snapshot.metrics[metric];
      if (!family || family.kind === 'histogram') continue;
      for (const sample of family.samples) {
        const labels = sample.labels ?? {};
        const key = `${metric} ${JSON.stringify(labels)}`;
        let one = this.series.get(key);
        if (!one) this.series.set(key, one = { metric, labels, values: [] });
        while (one.values.length < before) one.values.push(null);
        one.values.push((family.kind === 'counter' ? sample.per_second : sample.value) ?? null);
      }
    }
    this.series.forEach((one) => {
      while (one.values.length <= before) one.values.push(null);
    });
  }

  /** Forgets all: another process counts anew. */
  clear() {
    this.load({ times: [], series: [] });
  }

  of(metric, want = {}) {
    return [...this.series.values()].filter((one) => one.metric === metric && has(one.labels, want));
  }

  /** The sum of all label sets. */
  sum(metric, want) {
    const all = this.of(metric, want);
    return this.times.map((_, at) => {
      let [sum, any] = [0, false];
      for (const one of all) {
        if (one.values[at] !== null && one.values[at] !== undefined) [sum, any] = [sum + one.values[at], true];
      }
      return any ? sum : null;
    });
  }

  /** One curve for each value of a label; those that are 0 throughout are left out where asked. */
  by(metric, label, { want = {}, only = () => true, name = (value) => value } = {}) {
    const values = [...new Set(this.of(metric, want).map((one) => one.labels[label]))];
    values.sort((a, b) => a.localeCompare(b, 'en', { numeric: true }));
    return values.map((value) => ({ label: name(value), values: this.sum(metric, { ...want, [label]: value }) })).filter(only).slice(0, 16);
  }
}

/** A snapshot's numbers. */
export class Now {
  constructor(snapshot) {
    this.snapshot = snapshot;
  }

  samples(metric, want = {}) {
    return (this.snapshot.metrics[metric]?.samples ?? []).filter((sample) => has(sample.labels ?? {}, want));
  }

  value(metric, want) {
    const all = this.samples(metric, want).map((sample) => sample.value);
    return all.length ? all.reduce((a, b) => a + b) : null;
  }

  rate(metric, want) {
    return this.samples(metric, want).reduce((sum, sample) => sum + (sample.per_second ?? 0), 0);
  }

  share(part, whole) {
    const all = this.rate(whole);
    return all > 0 ? this.rate(part) / all : null;
  }

  labels(metric, label) {
    return [...new Set(this.samples(metric).map((sample) => sample.labels?.[label]).filter((value) => value !== undefined))];
  }

  fact(name) {
    return this.snapshot.facts[name] ?? '';
  }
}

const one = (label, values, more) => ({ label, values, ...more });
const some = (curve) => curve.values.some((value) => value);
const ratio = (a, b) => a.map((value, at) => (value !== null && b[at] > 0 ? value / b[at] : null));
const plus = (...all) => all[0].map((_, at) => {
  const values = all.map((values) => values[at]).filter((value) => value !== null && value !== undefined);
  return values.length ? values.reduce((a, b) => a + b) : null;
});
const column = (name, of, show, more = {}) => ({ name, of, show: show && ((row) => show(of(row))), ...more });

const quantile = (q) => ({ 0: 'least', 1: 'most' }[Number(q)] ?? `p${(100 * Number(q)).toFixed(1).replace(/\.0$/, '')}`);

const LOST = ['ebb_port_receive_dropped_packets_total', 'ebb_port_transmit_invalid_packets_total', 'ebb_port_transmit_dropped_packets_total'];

// Forwarded by workers and on the kernel path: a router may use both.
const routerForwarded = (track) => plus(track.sum('ebb_forwarded_packets_total'), track.sum('ebb_port_kernel_path_packets_total'));
const forwardedNow = (now) => now.rate('ebb_forwarded_packets_total') + now.rate('ebb_port_kernel_path_packets_total');
const dropsNow = (now) => now.rate('ebb_dropped_packets_total') + LOST.reduce((sum, metric) => sum + now.rate(metric), 0);
const losses = (now, metrics) => metrics.map(([reason, metric]) => ({ reason, rate: now.rate(metric), total: now.value(metric) ?? 0 })).filter((row) => row.total > 0);

const router = {
  title: 'Router',
  chips: (now) => [['mode', now.fact('mode')], ['idle', now.fact('idle')], ['energy', now.fact('energy_basis')]],
  tiles: (now) => [
    ['Cores on', `${f.whole(now.value('ebb_active_cores'))} of ${f.whole(now.value('ebb_cores'))}`, now.value('ebb_frequency_hertz') ? `${(now.value('ebb_frequency_hertz') / 1e9).toFixed(2)} GHz` : 'clock unknown'],
    ['Power', f.watts(now.value('ebb_power_watts')), now.fact('energy_basis')],
    ['Energy per packet', f.joules(forwardedNow(now) > 0 ? now.rate('ebb_energy_joules_total') / forwardedNow(now) : null), forwardedNow(now) > 0 ? 'over the last interval' : 'no packets'],
    ['Forwarded', f.packets(forwardedNow(now)), `${f.bits(now.rate('ebb_port_transmitted_bytes_total'))} out`],
    ['Dropped', f.packets(dropsNow(now)), 'all reasons', dropsNow(now) > 0 ? 'bad' : ''],
    ['Latency p99', f.seconds(now.value('ebb_latency_of_all_seconds', { quantile: '0.99' })), `p50 ${f.seconds(now.value('ebb_latency_of_all_seconds', { quantile: '0.5' }))}, since start`],
    ['Longest queue', f.whole(Math.max(0, ...now.samples('ebb_queue_length').map((sample) => sample.value))), 'packets'],
    ['Routes', f.whole(now.value('ebb_routes')), `${f.whole(now.value('ebb_neighbours'))} neighbours`],
  ],
  plots: [
    { title: 'Packets', unit: 'packets/s', format: (v) => f.scaled(v, ''), zero: true,
      of: (t) => [one('received', t.sum('ebb_port_received_packets_total')), one('forwarded', routerForwarded(t)), one('dropped', plus(t.sum('ebb_dropped_packets_total'), ...LOST.map((metric) => t.sum(metric))), { colour: 4 })] },
    { title: 'Cores', unit: 'cores', format: f.digits, zero: true,
      of: (t) => [one('on', t.sum('ebb_active_cores'), { kind: 'step' }), one('busy', t.sum('ebb_worker_busy_seconds_total'), { kind: 'area', colour: 1 }), one('available', t.sum('ebb_cores'), { kind: 'step', dash: true, colour: 6 })] },
    { title: 'Power', unit: 'W', format: f.watts, of: (t) => [one('power', t.sum('ebb_power_watts'))] },
    { title: 'Energy per packet', unit: 'J', format: f.joules, zero: true,
      of: (t) => [one('energy per packet', ratio(t.sum('ebb_energy_joules_total'), routerForwarded(t)))] },
    { title: 'Path', unit: 'packets/s', format: (v) => f.scaled(v, ''), zero: true,
      of: (t) => [one('workers', t.sum('ebb_forwarded_packets_total'), { kind: 'area' }), one('kernel path', t.sum('ebb_port_kernel_path_packets_total'), { kind: 'area' }), one('handed to the kernel', plus(t.sum('ebb_kernel_packets_total'), t.sum('ebb_port_kernel_packets_total')))] },
    { title: 'Queues', unit: 'packets', format: f.digits, zero: true, of: (t) => t.by('ebb_queue_length', 'worker', { name: (w) => `worker ${w}` }) },
    { title: 'Latency of all ports, since start', unit: 's', format: f.seconds, zero: true,
      of: (t) => t.by('ebb_latency_of_all_seconds', 'quantile', { name: quantile }) },
    { title: 'Drops by reason', unit: 'packets/s', format: f.digits, zero: true, none: 'Nothing was dropped in this time.',
      of: (t) => [...t.by('ebb_dropped_packets_total', 'reason', { only: some }),
        ...[['receive ring full', LOST[0]], ['interface refused', LOST[1]], ['link down', LOST[2]]].map(([label, metric]) => one(label, t.sum(metric))).filter(some)] },
    { title: 'Hand-overs of flows', unit: 'per s', format: f.digits, zero: true,
      of: (t) => [one('hand-overs', t.sum('ebb_handovers_total')), one('redirect entries moved', t.sum('ebb_redirect_moves_total')), one('confirmed late', t.sum('ebb_late_handovers_total'), { colour: 4 })] },
    { title: 'Interruption by hand-overs', unit: 's', format: f.seconds, zero: true, none: 'No flow has changed its core yet.',
      of: (t) => t.by('ebb_handover_interruption_seconds', 'quantile', { name: quantile }) },
  ],
  tables: [
    { title: 'Workers', rows: (now) => now.labels('ebb_worker_active', 'worker').map((worker) => ({ now, want: { worker }, worker })),
      columns: [
        column('worker', (r) => r.worker, null, { left: true }),
        column('CPU', (r) => r.now.value('ebb_worker_cpu', r.want), f.whole),
        column('state', (r) => (r.now.value('ebb_worker_active', r.want) ? 'active' : r.worker.startsWith('kernel') ? 'kernel' : 'parked'), null, { left: true }),
        column('busy', (r) => r.now.rate('ebb_worker_busy_seconds_total', r.want), f.percent),
        column('received', (r) => r.now.rate('ebb_received_packets_total', r.want), f.packets),
        column('forwarded', (r) => r.now.rate('ebb_forwarded_packets_total', r.want), f.packets),
        column('dropped', (r) => r.now.rate('ebb_dropped_packets_total', r.want), f.packets),
        column('queue', (r) => r.now.value('ebb_queue_length', r.want), f.whole, { unit: 'packets' }),
        column('wake-ups', (r) => r.now.rate('ebb_wakeups_total', r.want), f.rate),
      ] },
    { title: 'Ports', rows: (now) => now.labels('ebb_port_up', 'port').map((port) => ({ now, want: { port }, port })),
      columns: [
        column('port', (r) => r.port, null, { left: true }),
        column('link', (r) => (r.now.value('ebb_port_gone', r.want) ? 'gone' : r.now.value('ebb_port_up', r.want) ? 'up' : 'down'), null, { left: true }),
        column('received', (r) => r.now.rate('ebb_port_received_packets_total', r.want), f.packets),
        column('sent', (r) => r.now.rate('ebb_port_transmitted_packets_total', r.want), f.packets),
        column('in', (r) => r.now.rate('ebb_port_received_bytes_total', r.want), f.bits),
        column('out', (r) => r.now.rate('ebb_port_transmitted_bytes_total', r.want), f.bits),
        column('kernel path', (r) => r.now.rate('ebb_port_kernel_path_packets_total', r.want), f.packets),
        column('lost', (r) => LOST.reduce((sum, metric) => sum + r.now.rate(metric, r.want), 0), f.packets),
        column('p99', (r) => r.now.value('ebb_latency_seconds', { ...r.want, quantile: '0.99' }), f.seconds),
      ] },
    { title: 'Dropped since the start', none: 'Nothing was dropped.',
      rows: (now) => [
        ...now.labels('ebb_dropped_packets_total', 'reason').map((reason) => ({ reason, rate: now.rate('ebb_dropped_packets_total', { reason }), total: now.value('ebb_dropped_packets_total', { reason }) ?? 0 })).filter((row) => row.total > 0),
        ...losses(now, [['receive ring full', LOST[0]], ['interface refused', LOST[1]], ['link down', LOST[2]]])],
      columns: [column('reason', (r) => r.reason, null, { left: true }), column('now', (r) => r.rate, f.packets), column('in all', (r) => r.total, f.whole, { unit: 'packets' })] },
  ],
};

const POWER = [['ebb_cluster_back_end_on', 'on'], ['ebb_cluster_back_end_waking', 'waking'], ['ebb_cluster_back_end_draining', 'draining']];
const CLUSTER_LOST = [['no back-end', 'ebb_cluster_homeless_total'], ['link queue full', 'ebb_cluster_overrun_total'], ['link down', 'ebb_cluster_link_down_total'], ['probes refused', 'ebb_cluster_probes_refused_total'], ['forged', 'ebb_cluster_forged_total'], ['stale', 'ebb_cluster_stale_total']];

const cluster = {
  title: 'Cluster',
  chips: (now) => [['cluster', now.fact('cluster')], ['member', now.fact('member')], ['leader', now.fact('leader')], ['policy', now.fact('policy')], ['speaker', now.fact('speaker')]],
  tiles: (now) => [
    ['Back-ends on', `${f.whole(now.value('ebb_cluster_back_end_on') ?? 0)} of ${now.labels('ebb_cluster_back_end_on', 'back_end').length}`, `${f.whole(now.value('ebb_cluster_back_end_waking') ?? 0)} waking, ${f.whole(now.value('ebb_cluster_back_end_draining') ?? 0)} draining`],
    ['To back-ends', f.packets(now.rate('ebb_cluster_balanced_total')), f.bits(now.rate('ebb_cluster_balanced_bytes_total'))],
    ['To the outside', f.packets(now.rate('ebb_cluster_returned_total')), 'from back-ends'],
    ['Dropped', f.packets(CLUSTER_LOST.slice(0, 3).reduce((sum, [, metric]) => sum + now.rate(metric), 0)), 'all reasons'],
    ['Plan', f.whole(now.value('ebb_cluster_plan_version')), `term ${f.whole(now.value('ebb_cluster_term'))}`],
    ['Store', now.value('ebb_cluster_store_answers') === 0 ? 'silent' : 'answers', `${f.whole(now.value('ebb_cluster_store_refused') ?? 0)} keys refused`, now.value('ebb_cluster_store_answers') === 0 ? 'bad' : ''],
    ['Deaths found', f.whole(now.value('ebb_cluster_deaths_total')), 'since the start'],
    ['Take-overs', f.whole(now.value('ebb_cluster_takeovers_total')), 'since the start'],
  ],
  plots: [
    { title: 'Packets', unit: 'packets/s', format: (v) => f.scaled(v, ''), zero: true, of: (t) => [one('to back-ends', t.sum('ebb_cluster_balanced_total')), one('to the outside', t.sum('ebb_cluster_returned_total'))] },
    { title: 'Back-ends', unit: 'machines', format: f.digits, zero: true, of: (t) => POWER.map(([metric, label]) => one(label, t.sum(metric), { kind: 'step' })) },
    { title: 'Load of balancers', unit: 'packets/s', format: (v) => f.scaled(v, ''), zero: true, of: (t) => t.by('ebb_cluster_balancer_load_pps', 'balancer') },
    { title: 'Share of each back-end', unit: 'share', format: f.digits, zero: true, of: (t) => t.by('ebb_cluster_back_end_share', 'back_end') },
    { title: 'Drops by reason', unit: 'packets/s', format: f.digits, zero: true, none: 'Nothing was dropped in this time.', of: (t) => CLUSTER_LOST.map(([label, metric]) => one(label, t.sum(metric))).filter(some) },
    { title: 'Flows that move', unit: 'per s', format: f.digits, zero: true, of: (t) => [one('packets held back', t.sum('ebb_cluster_held_total')), one('drains ended', t.sum('ebb_cluster_drains_total')), one('drains cut short', t.sum('ebb_cluster_drains_cut_total'), { colour: 4 })] },
  ],
  tables: [
    { title: 'Back-ends', rows: (now) => now.labels('ebb_cluster_back_end_on', 'back_end').map((name) => ({ now, want: { back_end: name }, name, held: now.value('ebb_cluster_back_end_held', { back_end: name }) })),
      columns: [
        column('back-end', (r) => r.name, null, { left: true }),
        column('power', (r) => POWER.find(([metric]) => r.now.value(metric, r.want))?.[1] ?? 'off', null, { left: true }),
        column('up', (r) => (r.now.value('ebb_cluster_back_end_up', r.want) ? 'yes' : 'no'), null, { left: true }),
        column('share', (r) => r.now.value('ebb_cluster_back_end_share', r.want), f.percent),
        column('held off', (r) => (r.held ? 'yes' : 'no'), null, { left: true }),
        column('dead to', (r) => r.now.value('ebb_cluster_back_end_dead_to', r.want), f.whole, { unit: 'balancers' }),
      ],
      act: (row) => (row.held ? { text: 'Give back', command: { undrain: row.name }, title: `Give ${row.name} back?`, says: `${row.name} gets flows again as soon as it is up.` }
        : { text: 'Drain', command: { drain: row.name }, title: `Drain ${row.name}?`, says: `Its flows move to other back-ends, then it goes off and stays off until it is given back. No packet is lost where others have room.` }) },
    { title: 'Balancers', rows: (now) => now.labels('ebb_cluster_balancer_load_pps', 'balancer').map((name) => ({ now, want: { balancer: name }, name })),
      columns: [
        column('balancer', (r) => r.name, null, { left: true }),
        column('load', (r) => r.now.value('ebb_cluster_balancer_load_pps', r.want), f.packets),
        column('plan acknowledged', (r) => r.now.value('ebb_cluster_balancer_acknowledged', r.want), f.whole),
      ] },
    { title: 'Lost and refused since the start', none: 'Nothing was lost or refused.', rows: (now) => losses(now, CLUSTER_LOST),
      columns: [column('reason', (r) => r.reason, null, { left: true }), column('now', (r) => r.rate, f.packets), column('in all', (r) => r.total, f.whole)] },
  ],
};

const RACK_LOST = [['queue full', 'ebb_circuit_rack_dropped_full_total'], ['unroutable', 'ebb_circuit_rack_dropped_unroutable_total'], ['lost by the kernel', 'ebb_circuit_rack_dropped_receive_total'], ['interface refused', 'ebb_circuit_rack_dropped_transmit_total']];
const SYNC = ['accepted', 'missed', 'late', 'doubled', 'contradicting', 'stepped', 'malformed', 'forged', 'replayed'];
const SOURCES = { controller: "the controller's days", rotation: 'fixed rotation: no controller' };

const tor = {
  title: 'Top-of-rack switch',
  chips: (now) => [['days', SOURCES[now.fact('source')] ?? 'packet path: no circuits known'], ['sync frames', now.value('ebb_circuit_sealed') ? 'sealed' : 'not sealed']],
  tiles: (now) => [
    ['Sent to circuits', f.packets(now.rate('ebb_circuit_rack_sent_total')), f.bits(now.rate('ebb_circuit_rack_sent_bytes_total'))],
    ['By packets', f.packets(now.rate('ebb_circuit_rack_sent_by_packets_total')), 'packet path'],
    ['Received', f.packets(now.rate('ebb_circuit_rack_received_total')), 'from the optical switch'],
    ['Waiting', f.bytes(now.value('ebb_circuit_rack_waiting_bytes')), 'all destinations'],
    ['Days with frames left', f.percent(now.share('ebb_circuit_rack_days_left_total', 'ebb_circuit_rack_days_total')), 'of days with a circuit'],
    ['Thread busy', f.percent(now.rate('ebb_circuit_cpu_seconds_total')), `${f.rate(now.rate('ebb_circuit_stood_still_total'))} stalls`],
    ['Sync frames', f.rate(now.rate('ebb_circuit_sync_accepted_total')), `${f.whole(now.value('ebb_circuit_sync_missed_total') ?? 0)} days missed`],
    ['Dropped', f.packets(RACK_LOST.reduce((sum, [, metric]) => sum + now.rate(metric), 0)), 'all reasons'],
  ],
  plots: [
    { title: 'Frames', unit: 'frames/s', format: (v) => f.scaled(v, ''), zero: true, of: (t) => [one('to circuits', t.sum('ebb_circuit_rack_sent_total')), one('by packets', t.sum('ebb_circuit_rack_sent_by_packets_total')), one('received', t.sum('ebb_circuit_rack_received_total'))] },
    { title: 'Waiting, by destination', unit: 'bytes', format: f.bytes, zero: true, none: 'No frame has waited in this time.', of: (t) => t.by('ebb_circuit_rack_waiting_bytes', 'destination', { name: (d) => `to rack ${d}`, only: some }) },
    { title: 'Days', unit: 'per s', format: f.digits, zero: true, of: (t) => [one('with a circuit', t.sum('ebb_circuit_rack_days_total')), one('began with frames waiting', t.sum('ebb_circuit_rack_days_wanted_total')), one('ended with frames waiting', t.sum('ebb_circuit_rack_days_left_total'))] },
    { title: 'Sync frames', unit: 'per s', format: f.digits, zero: true, of: (t) => SYNC.map((name) => one(name, t.sum(`ebb_circuit_sync_${name}_total`))).filter((curve, at) => at === 0 || some(curve)) },
    { title: 'Its thread', unit: 'share of a core', format: f.digits, zero: true, of: (t) => [one('busy', t.sum('ebb_circuit_cpu_seconds_total'), { kind: 'area' }), one('waited for the CPU', t.sum('ebb_circuit_waited_seconds_total'))] },
    { title: 'Drops by reason', unit: 'frames/s', format: f.digits, zero: true, none: 'Nothing was dropped in this time.', of: (t) => RACK_LOST.map(([label, metric]) => one(label, t.sum(metric))).filter(some) },
  ],
  tables: [
    { title: 'Racks', rows: (now) => now.labels('ebb_circuit_rack_sent_total', 'rack').map((rack) => ({ now, want: { rack }, rack })),
      columns: [
        column('rack', (r) => r.rack, null, { left: true }),
        column('to circuits', (r) => r.now.rate('ebb_circuit_rack_sent_total', r.want), f.packets),
        column('bits', (r) => r.now.rate('ebb_circuit_rack_sent_bytes_total', r.want), f.bits),
        column('by packets', (r) => r.now.rate('ebb_circuit_rack_sent_by_packets_total', r.want), f.packets),
        column('received', (r) => r.now.rate('ebb_circuit_rack_received_total', r.want), f.packets),
        column('waiting', (r) => r.now.value('ebb_circuit_rack_waiting_bytes', r.want), f.bytes),
        column('requeued', (r) => r.now.value('ebb_circuit_rack_requeued_total', r.want), f.whole, { unit: 'frames' }),
      ] },
    { title: 'Dropped since the start', none: 'Nothing was dropped.', rows: (now) => losses(now, RACK_LOST),
      columns: [column('reason', (r) => r.reason, null, { left: true }), column('now', (r) => r.rate, f.packets), column('in all', (r) => r.total, f.whole, { unit: 'frames' })] },
  ],
};

const PANELS = { router, cluster, tor };

export const panelOf = (daemon) => PANELS[daemon] ?? { title: { ocs: 'Optical switch', control: 'Controller of circuits' }[daemon] ?? daemon, chips: () => [], tiles: () => [], plots: [], tables: [] };

/** The metrics that a panel's plots read, found by having them read nothing. */
export function metricsOf(panel) {
  const found = new Set();
  const probe = {
    times: [], of: (metric) => { found.add(metric); return []; },
    sum(metric) { found.add(metric); return []; },
    by(metric) { found.add(metric); return []; },
  };
  panel.plots.forEach((plot) => plot.of(probe));
  return [...found];
}
