//! Tells a server where its questions are answered, and makes sure that they arrive.
//!
//! # Invariants
//!
//! - Whoever ends before the questions were seen to arrive leaves the configurations as they were found, except where
//!   somebody else has written since.
//! - A write is never broken off: what was sent is waited for, and then known to be there or not.
//! - A configuration is written as a whole: nothing of another controller's hooks stays in ours.

use std::ops::ControlFlow;
use std::pin::{Pin, pin};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use muster_api::kinds;
use muster_api::port::{Act, Call, Cascade, Guard, Kind, Object, Part, Refusal, Target};
use muster_cluster::KubeApi;
use muster_install::conversion::{self, CONVERTED};
use muster_install::hooks::{CONFIGURATIONS, Configuration, Reached, Step, instead};
use muster_tree::{Text, Tree, literal, tree};

use super::rehearsal;

/// Our name as an owner of fields.
pub const MANAGER: Text = literal!("muster-webhooks");
/// How often it is looked whether questions arrive, and how long apart.
const HEARD_TRIES: u32 = 150;
const HEARD_PAUSE: Duration = Duration::from_millis(200);
/// How often a server may accept a JobSet without asking: it hears of hooks within a moment, or never asks any.
const UNASKED_TRIES: u32 = 50;
/// How often a write is tried that others come before.
const WRITE_TRIES: u32 = 5;
/// How long a read or write of a configuration may take: whoever is told to stop waits for it.
const ASK_TIME_MAX: Duration = Duration::from_secs(5);

/// Why nobody asks us.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    /// The server does not take the configuration.
    #[error(
        "{name} cannot be written: {problem}\n\nhint: may this user get, create, patch and delete webhook configurations?"
    )]
    Refused {
        /// The configuration.
        name: &'static str,
        /// What the server said.
        problem: String,
    },
    /// The server's questions do not arrive.
    #[error(
        "the API server does not reach the webhooks at {base}; it says: {problem}\n\nhint: the operator has to run on the machine of the API server, or listen with `--webhook-listen ADDRESS:PORT` where it is reached; `--admission ''` registers none, as for `muster up`, which asks none and admits JobSets by itself"
    )]
    Unreached {
        /// Where they are.
        base: String,
        /// What the server said to a rehearsal.
        problem: String,
    },
}

/// A server that is asked.
pub trait Plane {
    /// Has one call done.
    async fn perform(&self, call: &Call) -> Result<Object, Refusal>;
    /// Has one call gone through without keeping anything.
    async fn rehearse(&self, call: &Call) -> Result<Object, Refusal>;
}

impl Plane for KubeApi {
    async fn perform(&self, call: &Call) -> Result<Object, Refusal> {
        KubeApi::perform(self, call).await
    }

    async fn rehearse(&self, call: &Call) -> Result<Object, Refusal> {
        KubeApi::rehearse(self, call).await
    }
}

/// A call about a configuration.
pub fn call(of: &Configuration, guard: Guard, act: Act) -> Call {
    call_on(of.kind, of.name, guard, act)
}

/// A call about something without a namespace.
pub fn call_on(kind: &Kind, name: &str, guard: Guard, act: Act) -> Call {
    let on = Target { kind: kind.clone(), namespace: Text::new(), name: name.into(), part: Part::Main };
    Call { by: MANAGER, on, guard, act }
}

/// Exactly this object.
pub fn exactly(object: &Object) -> Guard {
    Guard { uid: Some(object.tree.text_at(&["metadata", "uid"])), revision: Some(object.revision) }
}

/// What a configuration was like before we wrote it.
struct Before {
    of: &'static Configuration,
    tree: Option<Tree>,
}

/// A registration under way.
pub struct Registration<'a, P> {
    plane: &'a P,
    /// Our own, where a JobSet is rehearsed.
    namespace: &'a str,
    base: &'a str,
    authority: String,
    steps: &'a [Step],
    before: Vec<Before>,
}

impl<'a, P: Plane> Registration<'a, P> {
    /// Of the hooks of these steps at this address, certified by this authority (PEM, made for this process alone);
    /// `namespace` is our own, and JobSets are rehearsed in it.
    pub fn new(
        plane: &'a P,
        namespace: &'a str,
        base: &'a str,
        authority: &str,
        steps: &'a [Step],
    ) -> Registration<'a, P> {
        let authority = BASE64_STANDARD.encode(authority);
        Registration { plane, namespace, base, authority, steps, before: Vec::new() }
    }

    /// Registers the hooks and waits until they are `heard`; without that, where the server has no JobSets to rehearse.
    /// Ends early with what `quit` brings.
    ///
    /// They stay registered when we end later: JobSets are then refused, instead of being kept without anybody having
    /// looked at them.
    ///
    /// # Errors
    /// The server refuses, or does not reach us.
    pub async fn run<Q>(
        mut self,
        heard: Option<&dyn Fn() -> bool>,
        quit: impl Future<Output = Q>,
    ) -> Result<ControlFlow<Q>, RegisterError> {
        let done = self.until_heard(heard, pin!(quit)).await;
        if !matches!(done, Ok(ControlFlow::Continue(()))) {
            self.take_back().await;
        } else if self.steps.contains(&Step::Queues) {
            self.convert().await;
        }
        done
    }

    /// Has the server ask for versions here, where it knows the kinds: what it stores it serves without that.
    async fn convert(&self) {
        let by = conversion::by(self.reached().client(conversion::PATH));
        for name in CONVERTED {
            let get = call_on(&kinds::CRDS, name, Guard::default(), Act::Get);
            let Ok(there) = self.ask(&get).await else { continue };
            let patch = Act::Merge(conversion::instead(&by));
            let patch = call_on(&kinds::CRDS, name, exactly(&there), patch);
            if let Err(refusal) = self.ask(&patch).await {
                tracing::warn!(%refusal, name, "nobody converts between versions of this kind");
            }
        }
    }

    fn reached(&self) -> Reached<'_> {
        Reached::Url { base: self.base, authority: &self.authority }
    }

    async fn until_heard<Q>(
        &mut self,
        heard: Option<&dyn Fn() -> bool>,
        mut quit: Pin<&mut impl Future<Output = Q>>,
    ) -> Result<ControlFlow<Q>, RegisterError> {
        for one in CONFIGURATIONS.iter().filter(|it| self.steps.contains(&it.step)) {
            let refused = |e: Refusal| RegisterError::Refused { name: one.name, problem: e.words() };
            self.write(one).await.map_err(refused)?;
            tokio::select! {
                biased;
                why = &mut quit => return Ok(ControlFlow::Break(why)),
                () = std::future::ready(()) => {}
            }
        }
        let Some(heard) = heard else { return Ok(ControlFlow::Continue(())) };
        tokio::select! {
            why = &mut quit => Ok(ControlFlow::Break(why)),
            done = rehearse(self.plane, self.namespace, heard) => match done {
                Ok(()) => Ok(ControlFlow::Continue(())),
                Err(problem) => Err(RegisterError::Unreached { base: self.base.to_owned(), problem }),
            },
        }
    }

    async fn ask(&self, call: &Call) -> Result<Object, Refusal> {
        let late = |_| Err(Refusal::Unknown(format!("no answer within {ASK_TIME_MAX:?}")));
        tokio::time::timeout(ASK_TIME_MAX, self.plane.perform(call)).await.unwrap_or_else(late)
    }

    async fn read(&self, of: &Configuration) -> Result<Option<Object>, Refusal> {
        match self.ask(&call(of, Guard::default(), Act::Get)).await {
            Ok(there) => Ok(Some(there)),
            Err(Refusal::NotFound(_)) => Ok(None),
            Err(refusal) => Err(refusal),
        }
    }

    /// Writes a configuration over whatever is there, and notes what that was.
    async fn write(&mut self, of: &'static Configuration) -> Result<(), Refusal> {
        let hooks = of.hooks(&self.reached(), self.namespace);
        let mut tries = 1;
        loop {
            let there = self.read(of).await?;
            let write = match &there {
                None => call(of, Guard::default(), Act::Create(of.object(hooks.clone()))),
                Some(there) => call(of, exactly(there), Act::Merge(instead(hooks.clone(), &Tree::Null))),
            };
            // Before it is sent: a write without an answer may have happened.
            self.before.retain(|it| it.of.name != of.name);
            self.before.push(Before { of, tree: there.map(|it| it.tree) });
            match self.ask(&write).await {
                Err(Refusal::AlreadyExists(_) | Refusal::Conflict(_) | Refusal::NotFound(_))
                    if tries < WRITE_TRIES =>
                {
                    tries += 1;
                }
                done => return done.map(|_| ()),
            }
        }
    }

    async fn take_back(&self) {
        for before in &self.before {
            if let Err(refusal) = self.restore(before).await {
                tracing::warn!(%refusal, name = before.of.name, "a configuration that nobody answers stays");
            }
        }
    }

    async fn restore(&self, before: &Before) -> Result<(), Refusal> {
        let Some(there) = self.read(before.of).await?.filter(|it| self.is_ours(&it.tree)) else {
            return Ok(());
        };
        let act = match &before.tree {
            None => Act::Delete { cascade: Cascade::Background, grace_secs: None },
            Some(tree) => {
                Act::Merge(instead(tree.get("webhooks").cloned().unwrap_or_else(|| tree!([])), tree))
            }
        };
        match self.ask(&call(before.of, exactly(&there), act)).await {
            // Somebody else has it now.
            Err(Refusal::Conflict(_) | Refusal::NotFound(_)) => Ok(()),
            done => done.map(|_| ()),
        }
    }

    /// Whether it leads to this very process: nobody else has its authority.
    fn is_ours(&self, configuration: &Tree) -> bool {
        let hooks = configuration.items_at(&["webhooks"]);
        let ours = |hook: &Tree| {
            let url = hook.str_at(&["clientConfig", "url"]);
            url.starts_with(self.base) && hook.str_at(&["clientConfig", "caBundle"]) == self.authority
        };
        !hooks.is_empty() && hooks.iter().all(ours)
    }
}

/// A server takes a moment to hear of new hooks: it is asked to rehearse a JobSet until it asks us about it.
async fn rehearse(plane: &impl Plane, namespace: &str, heard: &dyn Fn() -> bool) -> Result<(), String> {
    let call = rehearsal::call(namespace, None);
    let (mut said, mut unasked) = (String::new(), 0);
    for _ in 0..HEARD_TRIES {
        let rehearsed = plane.rehearse(&call).await;
        if heard() {
            return Ok(());
        }
        match rehearsed {
            Ok(_) => unasked += 1,
            Err(refusal) => said = refusal.words(),
        }
        if unasked == UNASKED_TRIES {
            return Err("nothing; it accepts JobSets without asking".to_owned());
        }
        tokio::time::sleep(HEARD_PAUSE).await;
    }
    Err(said)
}

#[cfg(test)]
mod tests;
