//! Keeps a label on the leader's pod, by which the Service of the visibility API selects it: only the leader can answer.
//!
//! # Guarantees
//!
//! - The leader removes the label from every other pod: a leader that died could not remove its own.

use std::time::Duration;

use muster_api::client::{ApiError, ApiRequest, Preconditions, RequestTarget, RequestVerb, Subresource};
use muster_api::consts::labels::LEADS;
use muster_api::kinds;
use muster_api::meta;
use muster_cluster::KubeApi;
use muster_tree::{Text, Tree, literal, tree};

/// How often the labels are compared again without an error.
const RESYNC_INTERVAL: Duration = Duration::from_secs(10);
/// Pause after a failed request.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);

/// Keeps the label on the pod of this name and on no other, until it is cancelled.
pub async fn run(api: KubeApi, namespace: String, pod: String) {
    let mut told = String::new();
    loop {
        let pause = match reconcile(&api, &namespace, &pod).await {
            Ok(()) => RESYNC_INTERVAL,
            Err(refusal) => {
                let words = refusal.message();
                if words != told {
                    tracing::warn!(
                        pod,
                        error = words,
                        "cannot label the leader's pod; the visibility API is unavailable"
                    );
                    told = words;
                }
                RETRY_INTERVAL
            }
        };
        tokio::time::sleep(pause).await;
    }
}

async fn reconcile(api: &KubeApi, namespace: &str, pod: &str) -> Result<(), ApiError> {
    let labelled = api.list_by_labels(&kinds::PODS, namespace, &[(LEADS.0, LEADS.1)]).await?;
    let labelled: Vec<Text> = labelled.iter().map(|it| meta::name(&it.tree)).collect();
    for (name, label) in label_changes(&labelled, pod) {
        let on = RequestTarget {
            kind: kinds::PODS.clone(),
            namespace: namespace.into(),
            name,
            subresource: Subresource::Main,
        };
        let act = RequestVerb::MergePatch(tree!({"metadata": {"labels": (Tree::map([(LEADS.0, label)]))}}));
        match api
            .perform(&ApiRequest {
                field_manager: literal!("muster-operator"),
                target: on,
                preconditions: Preconditions::default(),
                verb: act,
            })
            .await
        {
            Err(ApiError::NotFound(_)) | Ok(_) => {}
            Err(refusal) => return Err(refusal),
        }
    }
    Ok(())
}

/// The label patches for the pods that have the label now, so that only `own` has it.
fn label_changes(labelled: &[Text], own: &str) -> Vec<(Text, Tree)> {
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
            let said = label_changes(&labelled, "a").into_iter();
            let said: Vec<String> =
                said.map(|(name, label)| format!("{name}={label}").replace('"', "")).collect();
            assert_eq!(said.join(" "), want, "{says}");
        }
    }
}
