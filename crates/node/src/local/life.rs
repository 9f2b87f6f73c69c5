//! What a pod on this machine does next.
//!
//! [`Life::next`] is a pure step: the pod's work, what is known of its containers and the time give deeds. The node
//! performs them and tells what came of it ([`Life::begun`], [`Life::heard`]).
//!
//! # Invariants
//!
//! - A container begins only when all before it are where they must be, and never while a run of it is under way.
//! - A pod that is ending starts nothing. It is over when no run is under way.
//! - Main containers stop first, sidecars after them in reverse order, all by the same instant.

use std::time::Duration;

use muster_api::event::Severity;
use muster_api::pod::Phase;
use muster_api::pod_work::{Check, ContainerWork, Probe, Role, Work};
use muster_api::time::Time;
use muster_api::words::reasons;

use super::being::{Being, Hook, Stopping, Trouble, pulls};

/// What a container is given at least between the signal and the end by force.
const SIGNAL_GRACE_MIN: Duration = Duration::from_secs(2);

/// How long a hook may take; the end of its container cuts it short.
const HOOK_MAX: Duration = Duration::from_secs(3600);

/// A pod's containers, in the order of its [`Work`].
#[derive(Debug)]
pub struct Life {
    /// The containers.
    pub beings: Vec<Being>,
    /// Whether all init containers have been through once.
    pub initialized: bool,
    /// Why the pod ends, if it does.
    pub ending: Option<Ending>,
}

/// Why a pod ends, and by when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// Why.
    pub why: EndWhy,
    /// What still runs then is ended by force.
    pub by: Time,
}

/// Why a pod ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndWhy {
    /// Its work is done.
    Done,
    /// An init container failed for good.
    InitFailed,
    /// It was active for too long.
    Deadline,
    /// Somebody deleted it.
    Deleted,
    /// The node stops in good order.
    Shutdown,
    /// The server says it ended, or does not know it any more.
    Over,
}

/// What the world asks of the pod.
#[derive(Debug, Clone, Copy, Default)]
pub struct Asked {
    /// When the pod began.
    pub since: Time,
    /// It was deleted, and is to be gone by then.
    pub gone_by: Option<Time>,
    /// The node stops, and has until then.
    pub shutdown_by: Option<Time>,
    /// The server says that it ended.
    pub over: bool,
}

/// What is looked at, or done beside a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Looks {
    /// Whether it has come up.
    Startup,
    /// Whether it is alive.
    Liveness,
    /// Whether it can serve.
    Readiness,
    /// What is done once it runs.
    PostStart,
    /// What is done before it stops.
    PreStop,
}

/// One thing to do, about the container with this number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deed {
    /// Begin this run.
    Start(usize, u32),
    /// Send a signal to the newest run.
    Signal(usize, i32),
    /// End the newest run by force.
    Kill(usize),
    /// Look, or do.
    Check(usize, Looks),
    /// Tell people.
    Note(Severity, &'static str, String),
}

/// Deeds, and when to ask again if nothing happens.
#[derive(Debug, Default)]
pub struct Next {
    /// What to do.
    pub deeds: Vec<Deed>,
    /// When to ask again.
    pub wake: Option<Time>,
}

impl Next {
    fn wake(&mut self, at: Option<Time>) {
        self.wake = self.wake.into_iter().chain(at).min();
    }

    fn warn(&mut self, reason: &'static str, message: String) {
        self.deeds.push(Deed::Note(Severity::Warning, reason, message));
    }
}

impl Life {
    /// A life that has not begun.
    #[must_use]
    pub fn new(work: &Work) -> Life {
        let beings = work.containers.iter().map(|_| Being::default()).collect();
        Life { beings, initialized: false, ending: None }
    }

    /// Whether no run is under way and none will be.
    #[must_use]
    pub fn over(&self) -> bool {
        self.ending.is_some() && self.beings.iter().all(|being| !being.up())
    }

    /// How the pod ends; of meaning when it is over.
    #[must_use]
    pub fn verdict(&self, work: &Work) -> Phase {
        let mains = work.containers.iter().zip(&self.beings).filter(|(one, _)| one.role == Role::Main);
        let codes = mains.map(|(_, being)| being.end().map_or(1, |end| i64::from(end.code)));
        match self.ending.as_ref().map(|ending| ending.why) {
            // What was cut short has not done its work, however politely it ended.
            Some(EndWhy::Deadline | EndWhy::InitFailed | EndWhy::Shutdown) => Phase::Failed,
            _ => Work::end_phase(codes),
        }
    }

    /// Decides.
    pub fn next(&mut self, work: &Work, asked: &Asked, now: Time) -> Next {
        let mut next = Next::default();
        self.beings.iter_mut().for_each(|being| {
            being.notice();
            match being.report_back_off(now) {
                Ok(message) => {
                    next.deeds.push(Deed::Note(Severity::Normal, reasons::BACK_OFF, message));
                    next.warn(reasons::FAILED, format!("Error: {}", pulls::BACK_OFF));
                }
                Err(later) => next.wake(later),
            }
        });
        self.choose_ending(work, asked, now, &mut next);
        if self.ending.is_none() {
            // Who has come up decides who may begin.
            self.watch(work, now, &mut next);
            self.bring_up(work, now, &mut next);
        }
        if self.ending.is_some() {
            self.wind_down(work, now, &mut next);
        }
        next
    }

    fn choose_ending(&mut self, work: &Work, asked: &Asked, now: Time, next: &mut Next) {
        let end = |why, by| Some(Ending { why, by });
        let asked_for = if asked.over {
            end(EndWhy::Over, now)
        } else if let Some(by) = asked.gone_by {
            end(EndWhy::Deleted, by)
        } else {
            asked.shutdown_by.and_then(|by| end(EndWhy::Shutdown, by))
        };
        match (&mut self.ending, asked_for) {
            // What the pod ended of stays; only the time may become shorter.
            (Some(known), Some(new)) => known.by = known.by.min(new.by),
            (ending @ None, Some(new)) => *ending = Some(new),
            (Some(_), None) => {}
            (None, None) => {
                let Some(deadline) = work.deadline.map(|length| asked.since + length) else { return };
                match now >= deadline {
                    true => self.ending = end(EndWhy::Deadline, now + work.grace),
                    false => next.wake(Some(deadline)),
                }
            }
        }
    }

    fn bring_up(&mut self, work: &Work, now: Time, next: &mut Next) {
        if !self.initialized && !self.initialize(work, now, next) {
            return;
        }
        self.initialized = true;
        let mut mains = work.containers.iter().zip(&self.beings).filter(|(one, _)| one.role == Role::Main);
        // First: a sidecar that was stopped because all is done must not come back after a crash.
        if mains.all(|(one, being)| being.done(one)) {
            self.ending = Some(Ending { why: EndWhy::Done, by: now + work.grace });
            return;
        }
        for (at, one) in work.containers.iter().enumerate() {
            if one.role != Role::Init && !self.beings[at].done(one) {
                self.try_begin(at, now, next);
            }
        }
    }

    /// Brings init containers one after the other through; whether all are.
    fn initialize(&mut self, work: &Work, now: Time, next: &mut Next) -> bool {
        for (at, one) in work.containers.iter().enumerate() {
            let being = &self.beings[at];
            let passed = match one.role {
                Role::Main => true,
                Role::Sidecar => being.running().is_some() && being.started,
                Role::Init => being.end().is_some_and(|end| end.code == 0),
            };
            if passed {
                continue;
            }
            if one.role == Role::Init && being.done(one) {
                self.ending = Some(Ending { why: EndWhy::InitFailed, by: now + work.grace });
            } else {
                self.try_begin(at, now, next);
            }
            return false;
        }
        true
    }

    fn try_begin(&self, at: usize, now: Time, next: &mut Next) {
        let being = &self.beings[at];
        match being.may_begin_at() {
            _ if being.up() => {}
            Some(later) if later > now => next.wake(Some(later)),
            _ => next.deeds.push(Deed::Start(at, being.attempt.map_or(0, |attempt| attempt + 1))),
        }
    }

    /// Probes and hooks of what runs.
    fn watch(&mut self, work: &Work, now: Time, next: &mut Next) {
        for (at, one) in work.containers.iter().enumerate() {
            let being = &mut self.beings[at];
            let Some(since) = being.running() else { continue };
            if being.stopping.is_some() {
                stop(at, being, one, now, next);
                continue;
            }
            if one.post_start.is_some() && being.post_start == Hook::Open {
                being.post_start = Hook::Busy;
                next.deeds.push(Deed::Check(at, Looks::PostStart));
            }
            if one.post_start.is_some() && being.post_start != Hook::Done {
                continue;
            }
            being.started |= one.startup.is_none();
            let probes = match being.started {
                false => [(Looks::Startup, &one.startup, &mut being.startup)].into_iter().collect(),
                true => vec![
                    (Looks::Liveness, &one.liveness, &mut being.liveness),
                    (Looks::Readiness, &one.readiness, &mut being.readiness),
                ],
            };
            for (what, probe, health) in probes {
                let Some(probe) = probe else { continue };
                match health.look(probe, since, now) {
                    Ok(()) => next.deeds.push(Deed::Check(at, what)),
                    Err(later) => next.wake(later),
                }
            }
            being.ready = being.started && (one.readiness.is_none() || being.ready);
        }
    }

    fn wind_down(&mut self, work: &Work, now: Time, next: &mut Next) {
        let by = self.ending.as_ref().map_or(now, |ending| ending.by);
        let up = |it: &&(usize, &ContainerWork)| self.beings[it.0].up();
        let all: Vec<(usize, &ContainerWork)> = work.containers.iter().enumerate().collect();
        let (sidecars, others): (Vec<_>, Vec<_>) =
            all.iter().filter(up).partition(|(_, one)| one.role == Role::Sidecar);
        let now_stopping: Vec<_> = match (others.is_empty(), now >= by) {
            (false, false) => others,
            // The last that began is the first to go.
            (true, false) => sidecars.into_iter().rev().take(1).collect(),
            (_, true) => others.into_iter().chain(sidecars).collect(),
        };
        for (at, one) in now_stopping {
            let being = &mut self.beings[at];
            let known = being.stopping.get_or_insert_with(|| {
                next.deeds.push(killing(one));
                Stopping { kill_at: by, hook: Hook::Open, signalled: false, killed: false }
            });
            known.kill_at = known.kill_at.min(by);
            stop(at, being, one, now, next);
        }
    }

    /// A run was begun.
    pub fn begun(&mut self, at: usize, attempt: u32) {
        self.beings[at].begun(attempt);
    }

    /// A run cannot begin.
    pub fn cannot(&mut self, at: usize, trouble: Trouble) {
        self.beings[at].trouble = Some(trouble);
    }

    /// What stopped runs from beginning may be gone: they are tried again at once.
    pub fn hope(&mut self, now: Time) {
        for trouble in self.beings.iter_mut().filter_map(|being| being.trouble.as_mut()) {
            trouble.again = now;
        }
    }

    /// Takes in what came of a check of the newest run.
    pub fn heard(
        &mut self,
        work: &Work,
        at: usize,
        what: Looks,
        found: Result<(), String>,
        now: Time,
    ) -> Next {
        let (one, being) = (&work.containers[at], &mut self.beings[at]);
        let mut next = Next::default();
        match what {
            Looks::PreStop => {
                if let Some(stopping) = &mut being.stopping {
                    stopping.hook = Hook::Done;
                }
                if let Err(why) = found {
                    next.warn(reasons::FAILED_PRE_STOP, hook_failed("PreStopHook", &why));
                }
            }
            Looks::PostStart => {
                being.post_start = Hook::Done;
                if let Err(why) = found {
                    next.warn(reasons::FAILED_POST_START, hook_failed("PostStartHook", &why));
                    give_up(being, one, now + work.grace, &mut next, "failed postStart hook");
                }
            }
            Looks::Startup | Looks::Liveness | Looks::Readiness => {
                probed(being, one, what, found, work.grace, now, &mut next);
            }
        }
        next
    }
}

fn hook_failed(hook: &str, why: &str) -> String {
    format!("{hook} failed: {why}")
}

fn killing(one: &ContainerWork) -> Deed {
    Deed::Note(Severity::Normal, reasons::KILLING, format!("Stopping container {}", one.name))
}

/// One step of stopping a container: its hook, the signal, force.
fn stop(at: usize, being: &mut Being, one: &ContainerWork, now: Time, next: &mut Next) {
    let running = being.running().is_some();
    let Some(stopping) = &mut being.stopping else { return };
    if stopping.killed {
        return;
    }
    if now >= stopping.kill_at {
        stopping.killed = true;
        next.deeds.push(Deed::Kill(at));
        return;
    }
    next.wake(Some(stopping.kill_at));
    // What is still being started has nobody to send a signal to; it is asked once it runs.
    if !running || stopping.signalled {
        return;
    }
    if one.pre_stop.is_some() && stopping.hook == Hook::Open {
        stopping.hook = Hook::Busy;
        next.deeds.push(Deed::Check(at, Looks::PreStop));
    }
    if one.pre_stop.is_none() || stopping.hook == Hook::Done {
        stopping.signalled = true;
        if one.pre_stop.is_some() {
            stopping.kill_at = stopping.kill_at.max(now + SIGNAL_GRACE_MIN);
        }
        next.deeds.push(Deed::Signal(at, one.stop_signal));
    }
}

/// A container that is not well is stopped; whether it comes back is its policy's.
fn give_up(being: &mut Being, one: &ContainerWork, kill_at: Time, next: &mut Next, why: &str) {
    if being.stopping.is_some() || !being.up() {
        return;
    }
    let tail = if one.restarts_after(1) { ", will be restarted" } else { "" };
    let message = format!("Container {} {why}{tail}", one.name);
    next.deeds.push(Deed::Note(Severity::Normal, reasons::KILLING, message));
    being.stopping = Some(Stopping { kill_at, hook: Hook::Open, signalled: false, killed: false });
}

fn probed(
    being: &mut Being,
    one: &ContainerWork,
    what: Looks,
    found: Result<(), String>,
    grace: Duration,
    now: Time,
    next: &mut Next,
) {
    let (probe, health, word): (&Option<Probe>, _, _) = match what {
        Looks::Startup => (&one.startup, &mut being.startup, "Startup"),
        Looks::Liveness => (&one.liveness, &mut being.liveness, "Liveness"),
        _ => (&one.readiness, &mut being.readiness, "Readiness"),
    };
    let Some(probe) = probe else { return };
    let verdict = health.heard(probe, found.is_ok());
    if let Err(why) = found {
        next.warn(reasons::UNHEALTHY, format!("{word} probe failed: {why}"));
    }
    match (what, verdict) {
        (Looks::Startup, Some(true)) => being.started = true,
        (Looks::Readiness, Some(ready)) => being.ready = ready,
        (Looks::Startup | Looks::Liveness, Some(false)) => {
            let why = format!("failed {} probe", word.to_lowercase());
            give_up(being, one, now + probe.grace.unwrap_or(grace), next, &why);
        }
        _ => {}
    }
}

/// What a look at a container does, and how long it may take.
#[must_use]
pub fn check_of(one: &ContainerWork, what: Looks) -> Option<(&Check, Duration)> {
    let (probe, hook) = match what {
        Looks::Startup => (&one.startup, &None),
        Looks::Liveness => (&one.liveness, &None),
        Looks::Readiness => (&one.readiness, &None),
        Looks::PostStart => (&None, &one.post_start),
        Looks::PreStop => (&None, &one.pre_stop),
    };
    let probe = probe.as_ref().map(|it| (&it.check, it.timeout));
    probe.or(hook.as_ref().map(|it| (it, HOOK_MAX)))
}
