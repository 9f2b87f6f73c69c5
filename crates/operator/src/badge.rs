//! The pod of whoever is in charge has a label, by which the Service of the visibility API finds it: the others have
//! nothing to tell.
//!
//! # Invariants
//!
//! - The one in charge takes the label off whoever had it before: who died cannot do that himself.

use std::time::Duration;

use muster_api::kinds;
use muster_api::meta;
use muster_api::port::{Act, Call, Guard, Part, Refusal, Target};
use muster_api::words::labels::LEADS;
use muster_cluster::KubeApi;
use muster_tree::{Text, Tree, literal, tree};

/// How often it is looked at.
const LOOK_AGAIN: Duration = Duration::from_secs(10);
/// How long after a refusal it is tried again.
const RETRY: Duration = Duration::from_secs(2);

/// Keeps the label on the pod of this name alone, for ever.
pub async fn keep(api: KubeApi, namespace: String, pod: String) {
    let mut told = String::new();
    loop {
        let pause = match round(&api, &namespace, &pod).await {
            Ok(()) => LOOK_AGAIN,
            Err(refusal) => {
                let words = refusal.words();
                if words != told {
                    tracing::warn!("queues cannot be asked about: the pod {pod} is not labelled: {words}");
                    told = words;
                }
                RETRY
            }
        };
        tokio::time::sleep(pause).await;
    }
}

async fn round(api: &KubeApi, namespace: &str, pod: &str) -> Result<(), Refusal> {
    let labelled = api.labelled(&kinds::PODS, namespace, &[(LEADS.0, LEADS.1)]).await?;
    let labelled: Vec<Text> = labelled.iter().map(|it| meta::name(&it.tree)).collect();
    for (name, label) in changes(&labelled, pod) {
        let on = Target { kind: kinds::PODS.clone(), namespace: namespace.into(), name, part: Part::Main };
        let act = Act::Merge(tree!({"metadata": {"labels": (Tree::map([(LEADS.0, label)]))}}));
        match api.perform(&Call { by: literal!("muster-operator"), on, guard: Guard::default(), act }).await {
            Err(Refusal::NotFound(_)) | Ok(_) => {}
            Err(refusal) => return Err(refusal),
        }
    }
    Ok(())
}

/// Which pods get or lose the label, where these have it and this one should.
fn changes(labelled: &[Text], own: &str) -> Vec<(Text, Tree)> {
    let others = labelled.iter().filter(|it| **it != own).map(|it| (it.clone(), Tree::Null));
    let own = (!labelled.iter().any(|it| *it == own)).then(|| (Text::from(own), Tree::from(LEADS.1)));
    own.into_iter().chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_pod_has_the_label() {
        for (says, labelled, want) in [
            ("nobody has it", &[][..], "a=true"),
            ("it has it", &["a"], ""),
            ("another has it", &["b"], "a=true b=null"),
            ("another has it, too", &["a", "b"], "b=null"),
        ] {
            let labelled: Vec<Text> = labelled.iter().map(|it| Text::from(*it)).collect();
            let said = changes(&labelled, "a").into_iter();
            let said: Vec<String> =
                said.map(|(name, label)| format!("{name}={label}").replace('"', "")).collect();
            assert_eq!(said.join(" "), want, "{says}");
        }
    }
}
