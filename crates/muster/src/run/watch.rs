//! Following the work until it ends, or is ended.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use muster_api::kinds;
use muster_api::port::{Follow, Uid};
use muster_api::ports::Clock;
use muster_api::time::Time;
use muster_api::train::kinds::TRAIN_JOBS;
use muster_cluster::KubeApi;
use muster_operator::ports::SystemClock;
use muster_tree::Text;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use crate::run::logs::{Logs, Spoken};
use crate::run::picture::{Ended, Picture, Watch, Work, WorkKind};
use crate::run::screen::Screen;
use crate::run::signals::Signals;
use crate::run::summary::{Outcome, Summary};
use crate::run::waits::{Nodes, Waits};
use crate::run::{pods, submit, words};

/// How often progress is shown.
const SHOW_PAUSE: Duration = Duration::from_millis(100);
/// Lines that are printed at once.
const LINES_AT_ONCE_MAX: usize = 256;
/// How long the last lines of ended pods are waited for.
const LAST_LINES_MAX: Duration = Duration::from_secs(10);
/// How much longer than their grace ending pods are waited for.
const END_EXTRA: Duration = Duration::from_secs(15);
/// How long pods of ended Jobs are waited for.
const SETTLE_MAX: Duration = Duration::from_secs(2);
/// How long pods that are ended without grace are waited for.
const KILL_MAX: Duration = Duration::from_secs(5);

/// The work, while it is followed.
pub struct Watching {
    api: KubeApi,
    picture: Picture,
    watches: Vec<(Watch, Text, Box<dyn Follow>)>,
    bell: Arc<Notify>,
    logs: Logs,
    spoken: mpsc::Receiver<Spoken>,
    screen: Screen,
    began: Time,
    /// Why pods did not run when we ended the work.
    held_up: BTreeMap<Uid, Vec<String>>,
    waits: Waits,
    /// The work that had not ended when we ended it.
    cut_short: BTreeSet<Uid>,
}

impl Watching {
    /// Begins to follow.
    #[must_use]
    pub fn start(api: &KubeApi, works: Vec<Work>, screen: Screen, nodes: Nodes) -> Watching {
        let began = SystemClock.now();
        let mut namespaces: Vec<Text> = works.iter().map(|work| work.namespace.clone()).collect();
        namespaces.sort();
        namespaces.dedup();
        let mut watches = Vec::new();
        for namespace in namespaces {
            let mut all = vec![
                (Watch::Jobs, &kinds::JOBS),
                (Watch::Pods, &kinds::PODS),
                (Watch::Events, &kinds::EVENTS),
            ];
            // Not every server has the kind.
            let any = |wanted: &[WorkKind]| works.iter().any(|work| wanted.contains(&work.kind));
            if any(&[WorkKind::JobSet, WorkKind::TrainJob]) {
                all.push((Watch::JobSets, &kinds::JOBSETS));
            }
            if any(&[WorkKind::TrainJob]) {
                all.push((Watch::TrainJobs, &TRAIN_JOBS));
            }
            for (watch, kind) in all {
                watches.push((watch, namespace.clone(), api.follow_in(kind, &namespace)));
            }
        }
        let (logs, spoken) = Logs::new(api.clone());
        let picture = Picture::new(works, began);
        let (bell, held_up, cut_short) = (Arc::default(), BTreeMap::new(), BTreeSet::new());
        let (api, waits) = (api.clone(), Waits::new(api, nodes));
        Watching { api, picture, watches, bell, logs, spoken, screen, began, held_up, waits, cut_short }
    }

    /// Waits until all work has ended, the time is up or a signal comes.
    ///
    /// With `held_max`, no other client can create what pods lack: when all pods have waited for that long, the run ends.
    /// Work that can never run here ends it at once.
    pub async fn until_over(
        &mut self,
        time_max: Option<Duration>,
        held_max: Option<Duration>,
        signals: &Signals,
    ) -> Outcome {
        let mut held_since = None;
        let mut is_stuck = move |picture: &Picture| {
            let since = picture.is_held().then(|| held_since.unwrap_or_else(Instant::now));
            held_since = since;
            picture.is_hopeless() || since.zip(held_max).is_some_and(|(since, max)| since.elapsed() >= max)
        };
        let deadline = time_max.map(|max| Instant::now() + max);
        let up = async {
            match deadline {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.until(|picture| picture.verdict().is_some() || is_stuck(picture)) => {
                match self.picture.verdict() {
                    Some(Ended::Completed) => Outcome::Completed,
                    Some(Ended::Failed(_)) => Outcome::Failed,
                    None => Outcome::Stuck,
                }
            }
            outcome = signals.wait(1) => outcome,
            () = up => Outcome::TimedOut,
        }
    }

    /// Ends the work: with grace, or without it when a second signal comes.
    pub async fn end(&mut self, signals: &Signals, signals_so_far: usize) {
        let grace = self.picture.live().map(pods::grace_secs).max().unwrap_or(0);
        self.screen.talk("ending the work; once more ends it without grace");
        let works = self.picture.works().to_vec();
        let reasons = self.picture.rows().into_iter().map(|row| words::reasons(&row));
        let lives = |work: &&Work| self.picture.end_of(work).is_none();
        self.cut_short = works.iter().filter(lives).map(|work| work.uid.clone()).collect();
        self.held_up = works.iter().map(|work| work.uid.clone()).zip(reasons).collect();
        submit::end(&self.api, &works).await;
        let gone = self.until(|picture| picture.live().next().is_none());
        tokio::select! {
            gone = tokio::time::timeout(Duration::from_secs(grace) + END_EXTRA, gone) => {
                if gone.is_ok() {
                    return;
                }
            }
            _ = signals.wait(signals_so_far + 1) => {}
        }
        submit::kill(&self.api, self.picture.live()).await;
        let gone = self.until(|picture| picture.live().next().is_none());
        if tokio::time::timeout(KILL_MAX, gone).await.is_err() {
            self.screen.talk("not all pods have ended");
        }
    }

    /// Prints the last lines and tells how it ended.
    pub async fn conclude(mut self, outcome: Outcome) -> Summary {
        self.pull();
        // What a Job counts may be known before its pods are: their logs and codes are the point of a summary.
        let _ = tokio::time::timeout(SETTLE_MAX, self.until(Picture::is_settled)).await;
        self.screen.show(&self.picture.rows(), self.took(), SystemClock.now());
        let Watching { logs, mut spoken, mut screen, picture, held_up, cut_short, .. } = self;
        let mut tasks = logs.close_all();
        let mut lines = Vec::new();
        let all = async {
            while spoken.recv_many(&mut lines, LINES_AT_ONCE_MAX).await > 0 {
                screen.print(&mut lines);
            }
        };
        if tokio::time::timeout(LAST_LINES_MAX, all).await.is_err() {
            tasks.abort_all();
            screen.talk("not all lines of the logs came in time");
        }
        screen.finish();
        let now = SystemClock.now();
        let mut summary = Summary::of(&picture, outcome, now, &held_up, |uid| screen.last_lines(uid));
        // However well it ended then: it was cut short.
        for part in summary.parts.iter_mut().filter(|part| cut_short.contains(&part.work.uid)) {
            part.ended = None;
        }
        summary
    }

    /// Follows until the picture is as wanted.
    async fn until(&mut self, mut wanted: impl FnMut(&Picture) -> bool) {
        let mut pause = tokio::time::interval(SHOW_PAUSE);
        let mut lines = Vec::new();
        while !wanted(&self.picture) {
            tokio::select! {
                () = self.bell.notified() => {}
                _ = self.spoken.recv_many(&mut lines, LINES_AT_ONCE_MAX) => self.screen.print(&mut lines),
                _ = pause.tick() => {
                    let rows = self.picture.rows();
                    self.screen.show(&rows, self.took(), SystemClock.now());
                    let why = self.waits.turn(&mut self.picture);
                    self.screen.explain(&why);
                }
            }
            self.pull();
        }
    }

    /// Takes in everything that watches have told.
    fn pull(&mut self) {
        let mut changed = false;
        for (watch, namespace, follow) in &mut self.watches {
            while let Some(batch) = follow.pull() {
                self.picture.feed(*watch, namespace, batch, SystemClock.now());
                changed = true;
            }
            let bell = self.bell.clone();
            follow.wake_when_ready(Box::new(move || bell.notify_one()));
        }
        if changed {
            self.picture.pods().for_each(|pod| self.logs.look_at(pod));
        }
    }

    fn took(&self) -> Duration {
        SystemClock.now().since(self.began)
    }
}
