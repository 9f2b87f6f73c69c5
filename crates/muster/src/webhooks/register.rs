//! Tells a server where its questions are answered, and makes sure that they arrive.

use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use muster_api::kinds;
use muster_api::port::{Act, Call, Cascade, Guard, Kind, Object, Part, Refusal, Target};
use muster_api::words::jobset as words;
use muster_cluster::{KubeApi, NAMESPACE, Served};
use muster_tree::{Text, Tree, literal, tree};

use super::hooks::{HOOKS, Say};
use super::serve::Desk;

/// Our name as an owner of fields.
const MANAGER: Text = literal!("muster-webhooks");
/// The JobSet that is rehearsed, never made.
const REHEARSED: &str = "muster-rehearsal";
/// How often it is looked whether questions arrive, and how long apart.
const HEARD_TRIES: u32 = 150;
const HEARD_PAUSE: Duration = Duration::from_millis(200);
/// How often a server may accept a JobSet without asking: it hears of hooks within a moment, or never asks any.
const UNASKED_TRIES: u32 = 50;

/// Why nobody asks us.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    /// The server does not take the configuration.
    #[error(
        "{name} cannot be written: {problem}\n\nhint: may this user write webhook configurations, and is there no other JobSet controller whose configuration has this name?"
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

/// A configuration of hooks.
struct Configuration {
    name: &'static str,
    word: &'static str,
    kind: &'static Kind,
    say: Say,
}

static CONFIGURATIONS: [Configuration; 2] = [
    Configuration {
        name: "jobset-mutating-webhook-configuration",
        word: "MutatingWebhookConfiguration",
        kind: &kinds::MUTATING_WEBHOOKS,
        say: Say::Change,
    },
    Configuration {
        name: "jobset-validating-webhook-configuration",
        word: "ValidatingWebhookConfiguration",
        kind: &kinds::VALIDATING_WEBHOOKS,
        say: Say::Refuse,
    },
];

impl Configuration {
    fn object(&self, base: &str, authority: &str) -> Tree {
        let hooks = HOOKS.iter().filter(|hook| hook.say == self.say);
        let hooks = Tree::list(hooks.map(|hook| hook.registration(base, authority)));
        tree!({
            "apiVersion": format!("{}/{}", self.kind.group, self.kind.version),
            "kind": self.word,
            "metadata": {"name": self.name},
            "webhooks": hooks,
        })
    }

    fn call(&self, act: Act) -> Call {
        let (kind, name) = (self.kind.clone(), self.name.into());
        let on = Target { kind, namespace: Text::new(), name, part: Part::Main };
        Call { by: MANAGER, on, guard: Guard::default(), act }
    }
}

/// Registers the hooks at this address, and waits until the server asks there; where it has no JobSets it cannot yet.
///
/// They stay registered when we end: JobSets are then refused, instead of being kept without anybody having looked at
/// them. Only what this very call has made, and nobody could ever have used, is taken back.
///
/// # Errors
/// The server refuses, or does not reach us.
pub async fn register(
    api: &KubeApi,
    served: &[Served],
    desk: &Desk,
    base: &str,
    authority: &str,
) -> Result<(), RegisterError> {
    let authority = BASE64_STANDARD.encode(authority);
    let mut made = Vec::new();
    for one in &CONFIGURATIONS {
        let before = api.perform(&one.call(Act::Get)).await;
        let apply = Act::Apply { body: one.object(base, &authority), force: true };
        let refused = |e: Refusal| RegisterError::Refused { name: one.name, problem: e.words() };
        let now = api.perform(&one.call(apply)).await.map_err(refused)?;
        if matches!(before, Err(Refusal::NotFound(_))) {
            made.push((one, now));
        }
    }
    if !served.iter().any(|it| it.kind == kinds::JOBSETS) {
        // Nothing to rehearse; JobSets that come later are asked about.
    } else if let Err(problem) = wait_until_heard(api, desk).await {
        take_back(api, made).await;
        return Err(RegisterError::Unreached { base: base.to_owned(), problem });
    }
    desk.ready();
    Ok(())
}

/// A server takes a moment to hear of new hooks: it is asked to rehearse a JobSet until it asks us about it.
async fn wait_until_heard(api: &KubeApi, desk: &Desk) -> Result<(), String> {
    let kind = kinds::JOBSETS.clone();
    let on = Target { kind, namespace: NAMESPACE.into(), name: REHEARSED.into(), part: Part::Main };
    let set = tree!({"apiVersion": words::API_VERSION, "kind": words::KIND, "spec": {"replicatedJobs": []}});
    let call = Call { by: MANAGER, on, guard: Guard::default(), act: Act::Create(set) };
    let (mut said, mut unasked) = (String::new(), 0);
    for _ in 0..HEARD_TRIES {
        let rehearsed = api.rehearse(&call).await;
        if desk.heard(words::KIND) {
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

async fn take_back(api: &KubeApi, made: Vec<(&Configuration, Object)>) {
    for (one, object) in made {
        let uid = object.tree.text_at(&["metadata", "uid"]);
        let gone = api.perform(&Call::delete(MANAGER, one.call(Act::Get).on, uid, Cascade::Background)).await;
        if let Err(refusal) = gone {
            tracing::warn!(%refusal, name = one.name, "a configuration that nobody answers stays");
        }
    }
}
