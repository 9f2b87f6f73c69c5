//! What a cluster has of what JobSets need, looked at when the operator starts and every now and then.

use std::time::Duration;

use muster_api::kinds;
use muster_api::port::{Act, Call, Guard, Kind, Part, Refusal, Target};
use muster_cluster::{KubeApi, Served};
use muster_jobset::crd;
use muster_tree::{Text, Tree, literal};

/// How long after a look the next one is.
const LOOK_AGAIN: Duration = Duration::from_secs(120);
/// Fields that a complaint names.
const NAMED_MAX: usize = 6;
/// The versions of device claims that are understood, the best first.
const CLAIM_VERSIONS: [Text; 3] = [literal!("v1"), literal!("v1beta2"), literal!("v1beta1")];
/// The definition.
const DEFINITION: Text = literal!("jobsets.jobset.x-k8s.io");

/// Nothing waits for the definition: hooks and controllers take JobSets up as soon as there are some.
const NO_JOBSETS: &str = "this cluster does not know JobSets: the definition jobsets.jobset.x-k8s.io is missing. \
    Install it with `muster crds | kubectl apply --server-side -f -`; JobSets are taken up when it is there";

/// What was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Surroundings {
    /// Whether there can be JobSets.
    pub jobsets: bool,
    /// How device claims are called.
    pub claims: Option<Kind>,
    /// What is missing, in words.
    pub complaint: Option<String>,
}

impl Surroundings {
    /// Looks.
    ///
    /// # Errors
    /// The server does not tell which kinds it has.
    pub async fn look(api: &KubeApi) -> Result<Surroundings, Refusal> {
        let served = api.served().await?;
        let jobsets = served.iter().any(|it| it.kind == kinds::JOBSETS);
        let complaint =
            if jobsets { of_definition(definition(api).await) } else { Some(NO_JOBSETS.to_owned()) };
        Ok(Surroundings { jobsets, claims: claims(&served), complaint })
    }

    /// Waits until device claims are called otherwise, and tells on the log what else has changed. A server that tells
    /// of none any more is not believed: it may just be starting.
    pub async fn changed(&self, api: &KubeApi) -> Surroundings {
        let mut known = self.clone();
        loop {
            tokio::time::sleep(LOOK_AGAIN).await;
            match Surroundings::look(api).await {
                Ok(now) if now.claims.is_some() && now.claims != self.claims => return now,
                Ok(now) => {
                    now.tell(known.complaint.as_ref());
                    known = now;
                }
                Err(refusal) => tracing::debug!(%refusal, "the kinds of the server cannot be read now"),
            }
        }
    }

    /// Tells what is missing, unless that was told already.
    pub fn tell(&self, told: Option<&String>) {
        if let Some(words) = self.complaint.as_ref().filter(|words| Some(*words) != told) {
            tracing::warn!("{words}");
        }
    }
}

/// How device claims are called here.
fn claims(served: &[Served]) -> Option<Kind> {
    let mut versions =
        CLAIM_VERSIONS.map(|version| Kind { version, ..kinds::RESOURCE_CLAIMS.clone() }).into_iter();
    versions.find(|kind| served.iter().any(|it| it.kind == *kind))
}

async fn definition(api: &KubeApi) -> Result<Tree, Refusal> {
    let on = Target { kind: kinds::CRDS.clone(), namespace: Text::new(), name: DEFINITION, part: Part::Main };
    let call = Call { by: literal!("muster"), on, guard: Guard::default(), act: Act::Get };
    Ok(api.perform(&call).await?.tree)
}

/// What is wrong with the definition of JobSets that a cluster has.
fn of_definition(read: Result<Tree, Refusal>) -> Option<String> {
    let lacks = match read {
        Ok(definition) => crd::lacks(&definition),
        // Read-only users may use JobSets without reading their definition.
        Err(refusal) => {
            tracing::debug!(%refusal, "the definition of JobSets cannot be read");
            return None;
        }
    };
    let named = lacks.iter().take(NAMED_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = match lacks.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!lacks.is_empty()).then(|| {
        format!(
            "the definition {DEFINITION} of this cluster is older than this operator or another's: it lacks {named}{more}. \
             The server drops these fields from JobSets, which then run without what they ask for. Install ours with \
             `muster crds | kubectl apply --server-side --force-conflicts -f -`"
        )
    })
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    fn served(versions: &[&str]) -> Vec<Served> {
        let kind = |version: &&str| Kind { version: Text::from(*version), ..kinds::RESOURCE_CLAIMS.clone() };
        let one = |version| Served { kind: kind(version), word: "ResourceClaim".into(), namespaced: true };
        versions.iter().map(one).collect()
    }

    #[test]
    fn the_best_version_of_device_claims() {
        for (versions, want) in [
            (&[][..], None),
            (&["v1beta1"], Some("v1beta1")),
            (&["v1beta1", "v1beta2"], Some("v1beta2")),
            (&["v1beta1", "v1", "v1beta2"], Some("v1")),
            (&["v2"], None),
        ] {
            assert_eq!(claims(&served(versions)).map(|it| it.version), want.map(Text::from));
        }
    }

    #[test]
    fn a_definition_of_others_is_complained_about() {
        assert_eq!(of_definition(Ok(crd::definition())), None);
        assert_eq!(of_definition(Err(Refusal::Forbidden("no".to_owned()))), None, "nobody knows");
        let (version, fields) = (crd::definition(), ["schema", "openAPIV3Schema", "properties", "spec"]);
        let bare = version.at(&["spec", "versions"]).unwrap().map_items(|_, it| it.with(&fields, tree!({})));
        let words = of_definition(Ok(version.with(&["spec", "versions"], bare))).unwrap();
        for part in ["it lacks spec.coordinator, ", " more. ", "--server-side --force-conflicts -f -"] {
            assert!(words.contains(part), "{words}");
        }
    }
}
