//! What the leader does: it keeps the Secret, the webhook configurations, the definitions with versions and the groups
//! that are handed on as they should be.
//!
//! # Invariants
//!
//! - It writes what was decided over what it knows, guarded by its revision; what others write in between wins, and is
//!   looked at again.
//! - The configurations are told of an authority right after the Secret, and mended whenever they change.
//! - Between two rounds it rests: nothing that others write makes it write without a pause.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use muster_api::kinds;
use muster_api::port::{Act, Call, Guard, Kind, Part, Refusal, Target};
use muster_api::ports::Clock;
use muster_cluster::KubeApi;
use muster_install::aggregated;
use muster_install::conversion::CONVERTED;
use muster_install::hooks::{CONFIGURATIONS, Configuration, Step as Whose};
use muster_tree::Tree;
use tokio::time::Instant;

use super::configurations;
use super::decide::{Elapsed, Picture, Step, decide};
use super::definitions;
use super::followed::Followed;
use super::holder::Holder;
use super::kept::{Found, Kept};
use super::services;
use super::{Lifetimes, SECRET, Service};
use crate::ports::SystemClock;
use crate::webhooks::{MANAGER, call_on, exactly};

/// Steps in one round: more than a rotation has.
const STEPS_MAX: u32 = 4;
/// How long after a round the next one is, at the latest.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// How long after a round the next one is, at the earliest.
const REST: Duration = Duration::from_millis(200);
/// How long after a refusal it is tried again.
const RETRY: Duration = Duration::from_secs(2);

/// What is complained about: each complaint once, until it is another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Topic {
    Secret,
    Configurations,
    Server,
}

/// Who asks our Service.
#[derive(Clone, Copy)]
enum Asker {
    Configuration(&'static Configuration),
    Definition(&'static str),
    /// A group that is handed on.
    Group(&'static str),
}

impl Asker {
    /// Those who ask about these steps. Whatever another has of the others is his.
    fn about(steps: &[Whose]) -> Vec<Asker> {
        let queues = steps.contains(&Whose::Queues);
        let groups = aggregated::NAMES.into_iter().map(Asker::Group);
        let others = CONVERTED.into_iter().map(Asker::Definition).chain(groups).filter(|_| queues);
        let configurations = CONFIGURATIONS.iter().filter(|it| steps.contains(&it.step));
        others.chain(configurations.map(Asker::Configuration)).collect()
    }

    fn kind(self) -> &'static Kind {
        match self {
            Asker::Configuration(of) => of.kind,
            Asker::Definition(_) => &kinds::CRDS,
            Asker::Group(_) => &kinds::API_SERVICES,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Asker::Configuration(of) => of.name,
            Asker::Definition(name) | Asker::Group(name) => name,
        }
    }

    fn port(self, there: &Tree, service: &Service) -> Option<i64> {
        match self {
            Asker::Configuration(of) => configurations::port(of, there, service),
            Asker::Definition(_) => definitions::port(there, service),
            Asker::Group(_) => services::port(there, &service.of_the_leader()),
        }
    }

    fn mended(self, there: &Tree, service: &Service, port: Option<i64>, bundle: &str) -> Option<Tree> {
        match self {
            Asker::Configuration(of) => configurations::mended(of, there, service, port, bundle),
            Asker::Definition(_) => definitions::mended(there, service, port, bundle),
            Asker::Group(_) => services::mended(there, &service.of_the_leader(), port, bundle),
        }
    }

    /// What `muster install` would have to make; definitions and groups are asked for by who needs them.
    fn lacks(self, there: Option<&Tree>) -> Option<String> {
        let Asker::Configuration(of) = self else { return None };
        let Some(there) = there else { return Some(of.name.to_owned()) };
        let lacks = configurations::lacks(of, there);
        (!lacks.is_empty()).then(|| format!("{} of {}", lacks.join(", "), of.name))
    }
}

/// The leader's part.
pub struct Keeper {
    api: KubeApi,
    service: Service,
    lives: Lifetimes,
    holder: Arc<Holder>,
    secret: Followed,
    askers: Vec<(Asker, Followed)>,
    /// The port of the Service, from the last of them that named it.
    port: Option<i64>,
    /// What they trust, and since when.
    trusted: Option<(String, Instant)>,
    /// The former authority, and since when it is that.
    former: Option<(String, Instant)>,
    told: BTreeMap<Topic, String>,
}

impl Keeper {
    /// Of the certificates of this Service, for those who ask about these steps; what `holder` holds comes back when the
    /// Secret is damaged.
    pub fn new(
        api: &KubeApi,
        service: &Service,
        lives: Lifetimes,
        holder: &Arc<Holder>,
        steps: &[Whose],
    ) -> Keeper {
        let follow = |of: Asker| (of, Followed::start(api, of.kind(), "", of.name()));
        Keeper {
            api: api.clone(),
            service: service.clone(),
            lives,
            holder: holder.clone(),
            secret: Followed::start(api, &kinds::SECRETS, &service.namespace, SECRET),
            askers: Asker::about(steps).into_iter().map(follow).collect(),
            port: None,
            trusted: None,
            former: None,
            told: BTreeMap::new(),
        }
    }

    /// Keeps them, for ever.
    pub async fn keep(mut self) {
        loop {
            let next = Instant::now() + self.round().await.clamp(REST, LOOK_AGAIN);
            tokio::time::sleep(REST).await;
            let all = std::iter::once(&mut self.secret).chain(self.askers.iter_mut().map(|it| &mut it.1));
            tokio::select! {
                () = any_hears(all) => {}
                () = tokio::time::sleep_until(next) => {}
            }
        }
    }

    /// Does all that can be done now; how long there is nothing to do then.
    async fn round(&mut self) -> Duration {
        match self.steps().await {
            Ok(left) => {
                self.told.remove(&Topic::Server);
                left
            }
            // Somebody was quicker; the watch tells.
            Err(Refusal::Conflict(_) | Refusal::AlreadyExists(_) | Refusal::NotFound(_)) => RETRY,
            Err(refusal) => {
                self.tell(
                    Topic::Server,
                    format!("the certificates of the webhooks cannot be kept: {}", refusal.words()),
                );
                RETRY
            }
        }
    }

    async fn steps(&mut self) -> Result<Duration, Refusal> {
        if !self.secret.is_known() {
            return Ok(LOOK_AGAIN);
        }
        for _ in 0..STEPS_MAX {
            let kept =
                match Found::of(self.secret.tree()) {
                    Found::Ours(kept) => kept,
                    Found::Foreign(why) => {
                        self.tell(Topic::Secret, format!(
                        "the Secret {}/{SECRET} is left alone: {why}; without it there are no webhooks. \
                         Delete it, and it is made anew",
                        self.service.namespace
                    ));
                        return Ok(LOOK_AGAIN);
                    }
                };
            // Certificates are renewed also while the configurations cannot be written.
            let mended = self.mend(&kept).await;
            let (picture, step) = self.decide(&kept);
            let after = match step {
                Step::Wait(left) if !self.is_untidy(&kept, &picture) => return mended.map(|()| left),
                step => self.made(step, &kept)?,
            };
            tracing::info!(?step, "certificates of the webhooks");
            self.write(&after).await?;
        }
        Ok(REST)
    }

    fn decide(&mut self, kept: &Kept) -> (Picture, Step) {
        let names = self.service.certified();
        let picture = kept.picture(&names);
        since(&mut self.former, kept.former().filter(|_| picture.serving.is_some()));
        let elapsed = Elapsed {
            trusted: self.trusted.as_ref().map(|(_, since)| since.elapsed()),
            former: self.former.as_ref().map(|(_, since)| since.elapsed()).unwrap_or_default(),
        };
        let now = SystemClock.now();
        let whole = |it: &Picture| it.serving.is_some() && it.authority.is_some_and(|valid| valid.at(now));
        let remembered = self.holder.kept().is_some_and(|it| whole(&it.picture(&names)));
        let step = decide(&picture, elapsed, remembered, now, &self.lives);
        (picture, step)
    }

    /// Whether the Secret says what follows from the rest of it otherwise.
    fn is_untidy(&self, kept: &Kept, picture: &Picture) -> bool {
        picture.serving.is_some() && self.secret.tree().is_some_and(|it| kept.differs(it))
    }

    fn made(&self, step: Step, kept: &Kept) -> Result<Kept, Refusal> {
        let (names, before) = (self.service.certified(), self.holder.kept());
        kept.after(step, before.as_ref(), &names, SystemClock.now(), &self.lives)
            .map_err(|error| Refusal::Unknown(error.to_string()))
    }

    async fn write(&mut self, kept: &Kept) -> Result<(), Refusal> {
        let namespace = self.service.namespace.as_str();
        let (guard, act) = match self.secret.object() {
            None => (Guard::default(), Act::Create(kept.secret(namespace, SECRET))),
            Some(there) => (exactly(there), Act::Merge(kept.patch())),
        };
        let kind = kinds::SECRETS.clone();
        let on = Target { kind, namespace: namespace.into(), name: SECRET.into(), part: Part::Main };
        let written = self.api.perform(&Call { by: MANAGER, on, guard, act }).await?;
        self.secret.note(written);
        Ok(())
    }

    /// Has the configurations trust the authorities of the Secret.
    async fn mend(&mut self, kept: &Kept) -> Result<(), Refusal> {
        let authorities = kept.bundle();
        if authorities.is_empty() || !self.askers.iter().all(|(_, it)| it.is_known()) {
            self.trusted = None;
            return Ok(());
        }
        self.complain();
        let bundle = BASE64_STANDARD.encode(&authorities);
        let mut refused = None;
        for at in 0..self.askers.len() {
            let Some(patch) = self.patch(at, &bundle) else { continue };
            self.trusted = None;
            // A busy API server takes seconds for each of these writes; the certificate in use must not expire meanwhile.
            // The rest is written in the next step.
            if self.decide(kept).1 == Step::RenewServing {
                return Ok(());
            }
            let (of, followed) = &mut self.askers[at];
            let Some(there) = followed.object() else { continue };
            let call = call_on(of.kind(), of.name(), exactly(there), Act::Merge(patch));
            tracing::info!(name = of.name(), "the API server is told whom to trust");
            match self.api.perform(&call).await {
                Ok(written) => followed.note(written),
                Err(refusal) => refused = Some(refusal),
            }
        }
        if let Some(refusal) = refused {
            return Err(refusal);
        }
        since(&mut self.trusted, Some(&authorities));
        Ok(())
    }

    fn patch(&mut self, at: usize, bundle: &str) -> Option<Tree> {
        let (of, followed) = &self.askers[at];
        let there = followed.tree()?;
        self.port = of.port(there, &self.service).or(self.port);
        of.mended(there, &self.service, self.port, bundle)
    }

    /// Tells what `muster install` would have to make.
    fn complain(&mut self) {
        let missing: Vec<String> = self.askers.iter().filter_map(|(of, it)| of.lacks(it.tree())).collect();
        if missing.is_empty() {
            self.told.remove(&Topic::Configurations);
            return;
        }
        self.tell(Topic::Configurations, format!(
            "webhook configurations are missing: {}. JobSets and queues are kept without anybody having looked at them. \
             Make them with `muster install`",
            missing.join(", ")
        ));
    }

    fn tell(&mut self, about: Topic, words: String) {
        if self.told.get(&about) != Some(&words) {
            tracing::warn!("{words}");
            self.told.insert(about, words);
        }
    }
}

/// Waits until any of them is told something.
async fn any_hears(all: impl Iterator<Item = &mut Followed>) {
    let mut hearing: Vec<_> = all.map(|it| Box::pin(it.hear())).collect();
    poll_fn(|context| {
        let heard = hearing.iter_mut().any(|it| it.as_mut().poll(context).is_ready());
        if heard { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Notes since when something is so.
fn since(noted: &mut Option<(String, Instant)>, now: Option<&str>) {
    match now {
        None => *noted = None,
        Some(now) if noted.as_ref().is_some_and(|(before, _)| before == now) => {}
        Some(now) => *noted = Some((now.to_owned(), Instant::now())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_runs_is_left_to_him() {
        let about =
            |steps: &[Whose]| -> Vec<&str> { Asker::about(steps).iter().map(|it| it.name()).collect() };
        let jobsets = ["jobset-mutating-webhook-configuration", "jobset-validating-webhook-configuration"];
        assert_eq!(about(&[Whose::JobSets]), jobsets);
        let queues = about(&[Whose::Queues]);
        assert!(queues.iter().all(|it| it.contains("kueue") || it.contains("visibility")), "{queues:?}");
        assert_eq!(about(&[Whose::JobSets, Whose::Queues]).len(), queues.len() + jobsets.len());
    }
}
