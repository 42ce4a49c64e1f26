//! The main loop of the node agent: binds running containers to their pools, all new ones in one change. Another
//! thread answers the runtime.

use crate::annotations::{id_of, zone_of};
use crate::conf::{Conf, Looked};
use crate::desk::{Desk, Kept, Known};
use crate::fences::PodFences;
use crate::options::Options;
use millpond_formats::node_files::REFUSED;
use millpond_machine::{Machine, Reason, Refusal, Writer};
use millpond_model::pools::{PoolNode, PoolsState};
use millpond_model::{Nanos, PoolId, printable};
use millpond_nri::{Parting, attend};
use millpond_pools::{Code, PoolError, dynamic, errno, requests};
use millpond_session::{
    Advice, Daemon, NotifyState, Output, Session, Stopwatch, stop_daemon_on_signal, tell_manager, watchdog,
};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;
use tokio::sync::oneshot;

/// The name of the service, in messages.
const NAME: &str = "node";
/// The interval of checks for a signal and for the end of the connection to the runtime.
const LOOK: Duration = Duration::from_millis(200);
/// The interval of checks of the configuration file. The kubelet replaces a mounted ConfigMap only once a minute.
const CONF: Nanos = Nanos::from_secs(2);
/// The interval of checks of bindings and of the kubelet's policy, without any event.
const CHECK: Nanos = Nanos::from_secs(10);
/// The delay of a check after a request of the runtime, which then writes its own CPU list.
const SETTLE: Nanos = Nanos::from_millis(500);
/// The delay of a retry after a failure.
const AGAIN: Nanos = Nanos::from_secs(1);
/// The most characters that are kept of the reason of a refused configuration.
const REFUSAL_MAX: usize = 400;
/// The delay before the agent connects to the runtime again.
const CALM: Duration = Duration::from_secs(1);

/// Runs until a signal stops it. `advice` checks each remedy before it is written. Returns the exit status.
pub fn run(options: &Options, err: &mut Output<'_>, advice: Advice) -> u8 {
    let stop = stop_daemon_on_signal();
    match begin(options, err) {
        Err(why) => {
            err.line(format!("{NAME}: {why}"));
            1
        }
        Ok((session, _lock, state)) => {
            let desk = Arc::new(Desk::new(state, options.unknown_pool, options.pod_fences.clone()));
            let status = Service {
                options,
                session: &session,
                desk: &desk,
                conf: options.conf.as_deref().map(|path| Conf::new(path, options.node.clone())),
                err,
                names: BTreeMap::new(),
                fences: PodFences::new(options.pod_fences.clone()),
                complaint: None,
                advice,
            }
            .go(stop);
            tell_manager(&[NotifyState::Stopping]);
            status
        }
    }
}

fn as_nanos(time: Duration) -> Nanos {
    Nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

/// Checks the kubelet's policy, and opens the machine and the files of the agent.
fn begin(options: &Options, err: &mut Output<'_>) -> Result<(Session, Daemon, PathBuf), String> {
    if let Some(why) = objection(&options.kubelet) {
        return Err(why);
    }
    let session = Session::open(&options.open).map_err(|error| error.to_string())?;
    let state = session.state_dir().ok_or("it is for a real machine")?.to_owned();
    let lock = Daemon::begin(&state, NAME).map_err(|error| error.to_string())?;
    let writer = Writer::open(session.machine()).map_err(|refusal| refusal.to_string())?;
    if let Some(repair) = writer.repaired() {
        err.line(format!("{NAME}: {repair}"));
    }
    drop(writer);
    Ok((session, lock, state))
}

/// Why the agent must not run on the node of this kubelet.
fn objection(kubelet: &Path) -> Option<String> {
    let file = millpond_session::static_cpu_manager(kubelet)?;
    Some(format!(
        "the kubelet's CPU manager has the policy static ({}), and gives CPUs to containers as well\n\
         hint: set cpuManagerPolicy: none in the kubelet's configuration, remove that file, and restart the kubelet",
        file.display()
    ))
}

struct Service<'a, 'o> {
    options: &'a Options,
    session: &'a Session,
    desk: &'a Arc<Desk>,
    conf: Option<Conf>,
    err: &'a mut Output<'o>,
    /// The container names that the machine has.
    names: BTreeMap<String, String>,
    fences: PodFences,
    /// The last reported error.
    complaint: Option<String>,
    advice: Advice,
}

impl Service<'_, '_> {
    fn say(&mut self, text: &str) {
        self.err.line(format!("{NAME}: {text}"));
        self.err.flush();
    }

    /// Reports an error, unless it is the same as the last one.
    fn complain(&mut self, why: String) {
        if self.complaint.as_ref() != Some(&why) {
            self.say(&why);
            self.complaint = Some(why);
        }
    }

    fn machine(&self) -> &dyn Machine {
        self.session.machine()
    }

    fn said(&self, error: &PoolError) -> String {
        said(error, self.session, self.advice)
    }

    fn go(&mut self, stop: &'static AtomicBool) -> u8 {
        self.look_at_conf();
        let pools = dynamic::read(self.machine());
        // The controller may not have written the entry of this node yet.
        if let (Err(error), None) = (pools, &self.options.node) {
            self.say(&self.said(&error));
            if self.conf.is_none() {
                let enable = (self.advice)(self.session, "enable them: pooladm -e");
                let hint = [enable, Some("give it --conf".to_owned())].into_iter().flatten();
                self.err.line(format!("hint: {}", hint.collect::<Vec<_>>().join("; or ")));
            }
            return 1;
        }
        let (leave, partings) = match self.connect() {
            Ok(connected) => connected,
            Err(error) => {
                self.say(&format!("cannot start a thread: {}", millpond_session::reason(&error)));
                return 1;
            }
        };
        let status = self.serve(stop, &partings);
        drop(leave);
        status
    }

    /// Starts the thread that answers the runtime, and that reconnects after the runtime restarts. It ends when the
    /// sender is dropped.
    fn connect(&self) -> std::io::Result<(Sender<()>, Receiver<Parting>)> {
        let (leave, left) = mpsc::channel::<()>();
        let (sender, receiver) = mpsc::channel();
        let (desk, socket) = (Arc::clone(self.desk), self.options.socket.clone());
        let work = move || {
            loop {
                let (_stays, told) = oneshot::channel();
                let parting = attend(&socket, Arc::clone(&desk) as _, told);
                desk.lose();
                if sender.send(parting).is_err() {
                    return;
                }
                if left.recv_timeout(CALM) != Err(mpsc::RecvTimeoutError::Timeout) {
                    return;
                }
            }
        };
        thread::Builder::new().name("node-nri".to_owned()).spawn(work)?;
        Ok((leave, receiver))
    }

    fn serve(&mut self, stop: &'static AtomicBool, partings: &Receiver<Parting>) -> u8 {
        let watch = Stopwatch::start();
        let (mut conf_due, mut check_due, mut alive) = (CONF, CHECK, Nanos(0));
        let mut again: Option<Nanos> = None;
        tell_manager(&[NotifyState::Ready]);
        while !stop.load(Ordering::Relaxed) {
            let news = self.desk.wait(LOOK);
            for line in self.desk.said() {
                self.say(&line);
            }
            while let Ok(parting) = partings.try_recv() {
                if let Some(status) = self.parted(&parting) {
                    return status;
                }
            }
            let now = watch.elapsed();
            if watchdog().is_some_and(|every| now - alive >= as_nanos(every / 2)) {
                tell_manager(&[NotifyState::Watchdog]);
                alive = now;
            }
            if now >= conf_due {
                conf_due = now + CONF;
                let before = self.refusal();
                if self.look_at_conf() || self.refusal() != before {
                    again = Some(now);
                }
            }
            if news.is_some() {
                // The runtime may write an older list after it has the answer.
                check_due = check_due.min(now + SETTLE);
            }
            let mut due = news.is_some() || again.is_some_and(|again| now >= again);
            if now >= check_due {
                check_due = now + CHECK;
                due = true;
                if let Some(why) = objection(&self.options.kubelet) {
                    self.say(&why);
                    return 1;
                }
            }
            if due {
                let is_new = news.is_some();
                let known = news.unwrap_or_else(|| self.desk.known());
                let of_node = self.conf.as_ref().and_then(Conf::fences);
                for line in self.fences.follow(self.session.machine(), &known, of_node, !is_new) {
                    self.say(&line);
                }
                again = match self.bind(&known) {
                    Ok(waits) => {
                        self.complaint = None;
                        waits.then_some(now)
                    }
                    Err(why) => {
                        self.complain(why);
                        Some(now + AGAIN)
                    }
                };
            }
        }
        0
    }

    /// Handles the end of the connection to the runtime. Returns an exit status if it is useless to reconnect.
    fn parted(&mut self, parting: &Parting) -> Option<u8> {
        let why = printable(&parting.to_string()).into_owned();
        match parting {
            Parting::Refused(_) => {
                self.say(&why);
                Some(1)
            }
            _ if self.desk.was_taken() => {
                self.complain(format!("{why}; containers keep their CPUs, and it is connected to again"));
                None
            }
            Parting::NoRuntime { .. } => {
                self.say(&why);
                let hint = "the runtime's plugins (NRI) may be off: containerd 1.7 needs disable = false in the section \
                            plugins.\"io.containerd.nri.v1.nri\" of its configuration, CRI-O enable_nri = true";
                self.err.line(format!("hint: {hint}"));
                Some(1)
            }
            _ => {
                self.say(&why);
                Some(1)
            }
        }
    }

    /// Checks the configuration. `true` if a new one was committed.
    fn look_at_conf(&mut self) -> bool {
        let Some(mut conf) = self.conf.take() else { return false };
        let looked = conf.look(self.session, self.advice);
        self.conf = Some(conf);
        match looked {
            Looked::Same => false,
            Looked::Committed(notes) => {
                self.say("the configuration of the pools was committed");
                for note in notes {
                    self.say(&note);
                }
                true
            }
            Looked::Failed(why) => {
                self.complain(why);
                false
            }
        }
    }

    /// In one change: binds running containers, removes the bindings of ended ones, and records the CPU requests of
    /// pools. Returns whether a container waits for a CPU of its pool.
    fn bind(&mut self, known: &Known) -> Result<bool, String> {
        self.tell_names(known).map_err(|refusal| refusal.to_string())?;
        let machine = self.session.machine();
        let before = dynamic::read(machine).map_err(|error| self.said(&error))?;
        let mut keys = BTreeMap::new();
        for (id, _, _) in unbound(&before, known) {
            match machine.pools().map_err(Refusal::from).and_then(|pools| pools.zone_key(zone_of(id))) {
                Ok(key) => drop(keys.insert(id.to_owned(), key)),
                // The container has ended meanwhile. The runtime will report that.
                Err(refusal) if refusal.reason == Reason::NoSuchZone => {}
                Err(refusal) => return Err(refusal.to_string()),
            }
        }
        let why = self.refusal();
        let to = refused(wanted(before.clone(), known, &keys), why.as_deref());
        // The machine may have other CPU lists than the configuration, because the runtime writes them, too.
        let is_so = || Ok(dynamic::prepare(machine, Some(to.clone()))?.steps.is_empty());
        if to == before && is_so().map_err(|error: PoolError| self.said(&error))? {
            return Ok(waits(&before, known));
        }
        let writer = Writer::open(machine).map_err(|refusal| refusal.to_string())?;
        let state = dynamic::read(machine).map_err(|error| self.said(&error))?;
        let to = refused(wanted(state.clone(), known, &keys), why.as_deref());
        let done = dynamic::commit(&writer, machine, Some(to.clone()));
        drop(writer);
        let done = done.map_err(|error| self.said(&error))?;
        for line in told(&state, &to, known).into_iter().chain(done.notes) {
            self.say(&line);
        }
        Ok(waits(&to, known))
    }

    /// Why the node's configuration is not completely in force, in one line.
    fn refusal(&self) -> Option<String> {
        let of_conf = self.conf.as_ref().and_then(Conf::refusal).map(str::to_owned);
        let why = of_conf.or_else(|| self.fences.refusal())?;
        Some(printable(&why.replace("\nhint: ", "; ")).chars().take(REFUSAL_MAX).collect())
    }

    fn tell_names(&mut self, known: &Known) -> Result<(), Refusal> {
        if !known.is_whole && known.containers.len() < self.names.len() {
            return Ok(());
        }
        let name = |(id, kept): (&String, &Kept)| (zone_of(id).to_owned(), kept.name.clone());
        let names: BTreeMap<String, String> = known.containers.iter().map(name).collect();
        if names != self.names {
            self.machine().zones()?.name_containers(&names)?;
            self.names = names;
        }
        Ok(())
    }
}

/// The text of an error, with a remedy that the machine accepts.
fn said(error: &PoolError, session: &Session, advice: Advice) -> String {
    if error.code == Code::System(errno::NOT_ACTIVE) {
        return "pools are disabled".to_owned();
    }
    match error.hint.as_ref().and_then(|hint| advice(session, hint)) {
        Some(hint) => format!("{error}\nhint: {hint}"),
        None => error.to_string(),
    }
}

/// The pool of a container. `None` for the default pool, and for a pool that does not exist.
fn pool_for<'s>(state: &'s PoolsState, kept: &Kept) -> Option<&'s PoolNode> {
    let pool = state.conf.pools.iter().find(|pool| Some(&pool.name) == kept.pool.as_ref());
    pool.filter(|pool| !pool.is_default)
}

fn has_cpus(state: &PoolsState, pool: &PoolNode) -> bool {
    state.conf.pset_of(pool).is_some_and(|set| set.size() > 0)
}

/// Whether a running container waits for the first CPU of its pool.
fn waits(state: &PoolsState, known: &Known) -> bool {
    let mut running = known.containers.values().filter(|kept| kept.runs);
    running.any(|kept| pool_for(state, kept).is_some_and(|pool| !has_cpus(state, pool)))
}

/// Running containers that are bound to another pool than theirs, or to none: the id, the entry, and the pool.
fn unbound<'k>(state: &PoolsState, known: &'k Known) -> Vec<(&'k str, &'k Kept, PoolId)> {
    let bound: BTreeMap<&str, PoolId> =
        state.zones.iter().filter_map(|(zone, pool)| Some((id_of(zone)?, *pool))).collect();
    let running = known.containers.iter().filter(|(_, kept)| kept.runs);
    running
        .filter_map(|(id, kept)| Some((id.as_str(), kept, pool_for(state, kept)?)))
        .filter(|(_, _, pool)| has_cpus(state, pool))
        .filter_map(|(id, kept, pool)| Some((id, kept, pool.id?)))
        .filter(|(id, _, pool)| bound.get(id) != Some(pool))
        .collect()
}

/// The configuration in which every container with a known cgroup is bound.
fn wanted(state: PoolsState, known: &Known, keys: &BTreeMap<String, String>) -> PoolsState {
    let mut to = state.clone();
    if known.is_whole {
        to.zones.retain(|zone, _| id_of(zone).is_none_or(|id| known.containers.contains_key(id)));
    }
    for (id, _, pool) in unbound(&state, known) {
        let same = to.zones.keys().find(|zone| id_of(zone) == Some(id)).cloned();
        to.zones.extend(same.or_else(|| keys.get(id).cloned()).map(|key| (key, pool)));
    }
    if known.is_whole {
        let mut sums: BTreeMap<Option<PoolId>, u64> = BTreeMap::new();
        for kept in known.containers.values() {
            let pool = pool_for(&state, kept).and_then(|pool| pool.id);
            // A pool with a container needs a CPU, even if the container requests none.
            let least = u64::from(pool.is_some());
            let sum = sums.entry(pool).or_default();
            *sum = sum.saturating_add(kept.requests.max(least));
        }
        for pool in &mut to.conf.pools {
            let of = if pool.is_default { None } else { pool.id };
            requests::note(pool, sums.get(&of).copied().unwrap_or(0));
        }
    }
    to
}

/// The configuration, with the property that says why it differs from that of the cluster.
fn refused(mut state: PoolsState, why: Option<&str>) -> PoolsState {
    let properties = &mut state.conf.system.user;
    match why {
        Some(why) if properties.string(REFUSED) == Some(why) => {}
        Some(why) => properties.set(REFUSED, why),
        None => drop(properties.remove(REFUSED)),
    }
    state
}

/// Lines about new and removed bindings.
fn told(before: &PoolsState, after: &PoolsState, known: &Known) -> Vec<String> {
    let mut lines = Vec::new();
    let mut ended = BTreeSet::new();
    for (zone, pool) in &after.zones {
        if before.zones.get(zone) == Some(pool) {
            continue;
        }
        let kept = id_of(zone).and_then(|id| known.containers.get(id));
        let name = kept.map_or(zone.as_str(), |kept| &kept.name);
        let called = after.conf.pools.iter().find(|p| p.id == Some(*pool)).map_or("", |p| &p.name);
        lines.push(format!("{} is in pool {}", printable(name), printable(called)));
    }
    for zone in before.zones.keys().filter(|zone| !after.zones.contains_key(*zone)) {
        ended.extend(id_of(zone).map(zone_of));
    }
    if !ended.is_empty() {
        let noun = if ended.len() == 1 { "container" } else { "containers" };
        let ids: Vec<&str> = ended.into_iter().collect();
        lines.push(format!("{noun} {} ended", ids.join(", ")));
    }
    lines
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use millpond_model::pools::{PoolsConf, PsetNode};
    use millpond_model::{CpuId, PsetId, State};

    /// Four CPUs, of which pool web (1) has two; pool idle (2) has none.
    fn state(zones: &[(&str, u32)]) -> PoolsState {
        let mut conf = PoolsConf::fresh((0..4).map(|n| (CpuId(n), State::OnLine)));
        for (name, number) in [("web", 1), ("idle", 2)] {
            conf.psets.push(PsetNode::new(name, format!("pset_{number}"), Some(PsetId(number))));
            let (pool, set) = (format!("pool_{number}"), format!("pset_{number}"));
            conf.pools.push(PoolNode::new(name, pool, set, Some(PoolId(number))));
        }
        conf.move_cpu(CpuId(2), "web");
        conf.move_cpu(CpuId(3), "web");
        let zones = zones.iter().map(|(name, pool)| ((*name).to_owned(), PoolId(*pool))).collect();
        PoolsState { conf, keep_others: false, zones }
    }

    fn id(digit: char) -> String {
        String::from(digit).repeat(64)
    }

    fn group(digit: char) -> String {
        format!("/kubepods/burstable/pod7/{}", id(digit))
    }

    fn known(containers: &[(char, Option<&str>, u64, bool)]) -> Known {
        let one = |(digit, pool, requests, runs): &(char, Option<&str>, u64, bool)| {
            let pool = pool.map(str::to_owned);
            (
                id(*digit),
                Kept {
                    name: format!("shop/{digit}/main"),
                    pool,
                    fence: None,
                    requests: *requests,
                    runs: *runs,
                },
            )
        };
        Known { containers: containers.iter().map(one).collect(), is_whole: true }
    }

    #[test]
    fn what_runs_in_a_pool_is_bound_and_its_requests_are_noted() {
        let known = known(&[
            ('a', Some("web"), 1500, true),
            ('b', Some("web"), 250, false),
            ('c', None, 100, true),
            ('d', Some("idle"), 7, true),
        ]);
        let before = state(&[]);
        let new: Vec<_> =
            unbound(&before, &known).into_iter().map(|(id, _, pool)| (id.to_owned(), pool)).collect();
        assert_eq!(new, [(id('a'), PoolId(1))]);
        let to = wanted(before.clone(), &known, &BTreeMap::from([(id('a'), group('a'))]));
        assert_eq!(to.zones, BTreeMap::from([(group('a'), PoolId(1))]));
        let requests: Vec<u64> = to.conf.pools.iter().map(requests::of_pool).collect();
        assert_eq!(requests, [100, 1750, 7]);
        assert!(waits(&before, &known));
        assert_eq!(told(&before, &to, &known), ["shop/a/main is in pool web"]);
        assert_eq!(wanted(to.clone(), &known, &BTreeMap::new()), to);
    }

    #[test]
    fn a_refusal_is_noted_until_it_is_over() {
        let before = state(&[]);
        let noted = refused(before.clone(), Some("9 CPUs are wanted"));
        assert_eq!(noted.conf.system.user.string(REFUSED), Some("9 CPUs are wanted"));
        assert_eq!(refused(noted.clone(), Some("9 CPUs are wanted")), noted);
        assert_eq!(refused(noted, None), before);
    }

    #[test]
    fn what_ended_is_forgotten_once_all_are_known() {
        let bound = [(group('a'), 1), (group('b'), 1), ("/system.slice/x.service".to_owned(), 1)];
        let bound: Vec<(&str, u32)> = bound.iter().map(|(zone, pool)| (zone.as_str(), *pool)).collect();
        let before = state(&bound);
        let mut known = known(&[('a', None, 0, true)]);
        known.is_whole = false;
        assert_eq!(wanted(before.clone(), &known, &BTreeMap::new()), before);
        known.is_whole = true;
        let to = wanted(before.clone(), &known, &BTreeMap::new());
        // A zone that was bound by hand stays bound. A zone that is not a container of a pod does not belong to the
        // agent.
        assert_eq!(to.zones.len(), 2);
        assert!(to.zones.contains_key(&group('a')));
        assert_eq!(told(&before, &to, &known), ["container bbbbbbbbbbbb ended"]);
    }

    #[test]
    fn the_annotation_wins_over_another_binding() {
        let mut before = state(&[]);
        before.zones.insert(group('a'), PoolId(2));
        let to = wanted(before, &known(&[('a', Some("web"), 0, true)]), &BTreeMap::new());
        assert_eq!(to.zones, BTreeMap::from([(group('a'), PoolId(1))]));
    }
}
