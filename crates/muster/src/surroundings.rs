//! What a cluster has of what JobSets and gangs need, looked at when the operator starts and every now and then.

use std::time::Duration;

use muster_api::gang::Gangs;
use muster_api::kinds;
use muster_api::port::{Act, Call, Guard, Kind, Part, Refusal, Target};
use muster_cluster::{KubeApi, Served};
use muster_jobset::crd;
use muster_tree::{Text, Tree, literal};

use crate::gangs;

/// How long after a look the next one is.
const LOOK_AGAIN: Duration = Duration::from_secs(120);
/// In so many looks gangs are looked for once: every ten minutes.
const GANGS_EVERY: u32 = 5;
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
    /// How gangs are spelled.
    pub gangs: Option<Gangs>,
    /// What is missing, in words.
    pub complaint: Option<String>,
}

/// What somebody needs to know of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needs {
    /// Whether JobSets are its business.
    pub jobsets: bool,
    /// Whether gangs are.
    pub gangs: bool,
}

impl Needs {
    /// Whether there is anything to look for.
    pub fn any(self) -> bool {
        self.jobsets || self.gangs
    }

    /// Whether the controllers have to be made anew where what was `old` is `new` now. A server that tells of no device
    /// claims, or of no gangs, any more is not believed: it may just be starting. Gangs that are being placed are
    /// finished as they were begun.
    fn call_for(self, old: &Surroundings, new: &Surroundings, idle: bool) -> bool {
        let claims = new.claims.is_some() && new.claims != old.claims;
        let gangs = new.gangs.is_some() && new.gangs != old.gangs;
        (self.jobsets && claims) || (self.gangs && gangs && idle)
    }
}

impl Surroundings {
    /// Looks; what gangs are like is rehearsed in this namespace, where that matters.
    ///
    /// # Errors
    /// The server does not tell which kinds it has.
    pub async fn look(api: &KubeApi, namespace: &str, needs: Needs) -> Result<Surroundings, Refusal> {
        let served = api.served().await?;
        let gangs = if needs.gangs { gangs::look(api, &served, namespace).await } else { None };
        Ok(Surroundings { gangs, ..Surroundings::of(api, &served).await })
    }

    /// All but gangs.
    async fn of(api: &KubeApi, served: &[Served]) -> Surroundings {
        let jobsets = served.iter().any(|it| it.kind == kinds::JOBSETS);
        let complaint =
            if jobsets { of_definition(definition(api).await) } else { Some(NO_JOBSETS.to_owned()) };
        Surroundings { jobsets, claims: claims(served), gangs: None, complaint }
    }

    /// Waits until controllers have to be made anew, and tells on the log what else has changed; `idle` says whether no
    /// gang is being placed now.
    pub async fn changed(
        &self,
        api: &KubeApi,
        namespace: &str,
        needs: Needs,
        idle: impl Fn() -> bool,
    ) -> Surroundings {
        let mut known = self.clone();
        for turn in 1_u32.. {
            tokio::time::sleep(LOOK_AGAIN).await;
            let now = match turn % GANGS_EVERY {
                0 => Surroundings::look(api, namespace, needs).await,
                _ => match api.served().await {
                    Ok(served) => {
                        let now = Surroundings::of(api, &served).await;
                        Ok(Surroundings { gangs: known.gangs, ..now })
                    }
                    Err(refusal) => Err(refusal),
                },
            };
            match now {
                Ok(now) if needs.call_for(self, &now, idle()) => return now,
                Ok(now) => {
                    if needs.jobsets {
                        now.tell(known.complaint.as_ref());
                    }
                    known = now;
                }
                Err(refusal) => tracing::debug!(%refusal, "the kinds of the server cannot be read now"),
            }
        }
        known
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
    use muster_api::gang::Form;
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

    /// Shows: 5832-62.
    #[test]
    fn controllers_are_made_anew_for_what_they_need() {
        let claims = || Some(kinds::RESOURCE_CLAIMS.clone());
        let [own, released] = [Form::Own, Form::Released]
            .map(|form| Some(Gangs { form, mark: muster_api::gang::Mark::Annotations }));
        let seen = |claims, gangs| Surroundings { jobsets: true, claims, gangs, complaint: None };
        let both = Needs { jobsets: true, gangs: true };
        for (says, needs, old, new, idle, want) in [
            ("nothing new", both, seen(claims(), own), seen(claims(), own), true, false),
            ("claims", both, seen(None, own), seen(claims(), own), false, true),
            ("claims went", both, seen(claims(), own), seen(None, own), true, false),
            (
                "claims of no use",
                Needs { jobsets: false, ..both },
                seen(None, own),
                seen(claims(), own),
                true,
                false,
            ),
            ("gangs, and none is under way", both, seen(None, own), seen(None, released), true, true),
            ("gangs, and some are under way", both, seen(None, own), seen(None, released), false, false),
            ("the first gangs", both, seen(None, None), seen(None, own), true, true),
            ("gangs went", both, seen(None, own), seen(None, None), true, false),
            (
                "gangs of no use",
                Needs { gangs: false, ..both },
                seen(None, own),
                seen(None, released),
                true,
                false,
            ),
        ] {
            assert_eq!(needs.call_for(&old, &new, idle), want, "{says}");
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
