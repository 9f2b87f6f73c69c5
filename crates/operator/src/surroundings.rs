//! What a cluster has of what JobSets, gangs, queues and TrainJobs need, looked at when the operator starts and every now and then.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_api::definition;
use muster_api::gang::{COSCHEDULING_GROUPS, Gangs, VOLCANO_GROUPS};
use muster_api::kinds;
use muster_api::meta;
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
/// What users call the kinds of a definition.
const JOBSETS: &str = "JobSets";
const QUEUES: &str = "queues";
const TRAINING: &str = "TrainJobs";

/// What was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Surroundings {
    /// Whether there can be JobSets.
    pub jobsets: bool,
    /// How device claims are called.
    pub claims: Option<Kind>,
    /// How gangs are spelled.
    pub gangs: Option<Gangs>,
    /// Those kinds of others that there are: what TrainJobs are made into.
    pub others: BTreeSet<Kind>,
    /// What is missing, in words.
    pub complaints: Vec<String>,
}

/// What somebody needs to know of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needs {
    /// Whether JobSets are its business.
    pub jobsets: bool,
    /// Whether gangs are.
    pub gangs: bool,
    /// Whether queues are.
    pub queues: bool,
    /// Whether TrainJobs are.
    pub training: bool,
}

impl Needs {
    /// Whether there is anything to look for.
    pub fn any(self) -> bool {
        self.jobsets || self.gangs || self.queues || self.training
    }

    /// Whether the controllers have to be made anew where what was `old` is `new` now. A server that tells of no device
    /// claims, of no gangs or of fewer kinds any more is not believed: it may just be starting. Gangs that are being placed
    /// are finished as they were begun.
    fn call_for(self, old: &Surroundings, new: &Surroundings, idle: bool) -> bool {
        let claims = new.claims.is_some() && new.claims != old.claims;
        let gangs = new.gangs.is_some() && new.gangs != old.gangs;
        let others = !new.others.is_subset(&old.others);
        (self.jobsets && claims) || (self.gangs && gangs && idle) || (self.training && others && idle)
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
        Ok(Surroundings { gangs, ..Surroundings::of(api, &served, needs).await })
    }

    /// All but gangs.
    async fn of(api: &KubeApi, served: &[Served], needs: Needs) -> Surroundings {
        let has = |kind: &Kind| served.iter().any(|it| it.kind == *kind);
        let jobsets = has(&kinds::JOBSETS);
        let mut complaints = Vec::new();
        if needs.jobsets {
            complaints.extend(complaint(api, JOBSETS, &[crd::definition()], &has).await);
        }
        if needs.queues {
            complaints.extend(complaint(api, QUEUES, &muster_queue::kinds::definitions(), &has).await);
        }
        if needs.training {
            complaints.extend(complaint(api, TRAINING, &muster_trainer::kinds::definitions(), &has).await);
        }
        let others = [&kinds::JOBSETS, &COSCHEDULING_GROUPS, &VOLCANO_GROUPS].into_iter();
        let others = others.filter(|kind| has(kind)).cloned().collect();
        Surroundings { jobsets, claims: claims(served), gangs: None, others, complaints }
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
                        let now = Surroundings::of(api, &served, needs).await;
                        Ok(Surroundings { gangs: known.gangs, ..now })
                    }
                    Err(refusal) => Err(refusal),
                },
            };
            match now {
                Ok(now) if needs.call_for(self, &now, idle()) => return now,
                Ok(now) => {
                    now.tell(&known.complaints);
                    known = now;
                }
                Err(refusal) => tracing::debug!(%refusal, "the kinds of the server cannot be read now"),
            }
        }
        known
    }

    /// Tells what is missing, but for what was told already.
    pub fn tell(&self, told: &[String]) {
        for words in self.complaints.iter().filter(|words| !told.contains(words)) {
            tracing::warn!("{words}");
        }
    }
}

/// How device claims may be called, the best version first.
pub fn claim_kinds() -> impl Iterator<Item = Kind> {
    CLAIM_VERSIONS.map(|version| Kind { version, ..kinds::RESOURCE_CLAIMS.clone() }).into_iter()
}

/// How device claims are called here.
fn claims(served: &[Served]) -> Option<Kind> {
    claim_kinds().find(|kind| served.iter().any(|it| it.kind == *kind))
}

/// What is wrong with the definitions of these kinds that a cluster has.
async fn complaint(api: &KubeApi, of: &str, ours: &[Tree], has: &impl Fn(&Kind) -> bool) -> Option<String> {
    let (there, missing): (Vec<&Tree>, Vec<&Tree>) = ours.iter().partition(|it| has(&stored(it)));
    if !missing.is_empty() {
        let names = missing.iter().map(|it| meta::name(it)).collect::<Vec<Text>>();
        return Some(absent(of, &names));
    }
    let mut lacks = Vec::new();
    for ours in there {
        let name = meta::name(ours);
        match read(api, &name).await {
            Ok(theirs) => {
                lacks.extend(
                    definition::lacks(ours, &theirs, &stored(ours).version)
                        .into_iter()
                        .map(|it| (name.clone(), it)),
                );
            }
            // Read-only users may use these kinds without reading their definitions.
            Err(refusal) => tracing::debug!(%refusal, %name, "a definition cannot be read"),
        }
    }
    outdated(of, &lacks)
}

async fn read(api: &KubeApi, name: &Text) -> Result<Tree, Refusal> {
    let (kind, namespace) = (kinds::CRDS.clone(), Text::new());
    let on = Target { kind, namespace, name: name.clone(), part: Part::Main };
    let call = Call { by: literal!("muster"), on, guard: Guard::default(), act: Act::Get };
    Ok(api.perform(&call).await?.tree)
}

/// The kind of a definition in the version that is stored.
fn stored(definition: &Tree) -> Kind {
    let mut versions = definition.items_at(&["spec", "versions"]).iter();
    let version = versions.find(|it| it.bool_at(&["storage"]) == Some(true));
    Kind {
        group: definition.text_at(&["spec", "group"]),
        version: version.map(|it| it.text_at(&["name"])).unwrap_or_default(),
        plural: definition.text_at(&["spec", "names", "plural"]),
    }
}

/// Nothing waits for a definition: hooks and controllers take its objects up as soon as there are some.
fn absent(of: &str, names: &[Text]) -> String {
    let (is, they) = if names.len() == 1 { ("the definition", "is") } else { ("the definitions", "are") };
    format!(
        "this cluster does not know {of}: {is} {} {they} missing. \
         Install it with `muster crds | kubectl apply --server-side -f -`; {of} are taken up when it is there",
        names.join(", ")
    )
}

/// What definitions of a cluster lack, in words: each the name of a definition, and a field.
fn outdated(of: &str, lacks: &[(Text, String)]) -> Option<String> {
    let (name, _) = lacks.first()?;
    let same = lacks.iter().all(|it| it.0 == *name);
    let field = |(name, field): &(Text, String)| match same {
        true => field.clone(),
        false => format!("{field} ({name})"),
    };
    let named = lacks.iter().take(NAMED_MAX).map(field).collect::<Vec<_>>().join(", ");
    let more = match lacks.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(format!(
        "the definition {name} of this cluster is older than this operator or another's: it lacks {named}{more}. \
         The server drops these fields from {of}, which then run without what they ask for. Install ours with \
         `muster crds | kubectl apply --server-side --force-conflicts -f -`"
    ))
}

#[cfg(test)]
mod tests {
    use muster_api::gang::Form;
    use muster_api::queue::kinds as queues;
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
        let seen = |claims, gangs| {
            let (others, complaints) = (BTreeSet::new(), Vec::new());
            Surroundings { jobsets: true, claims, gangs, others, complaints }
        };
        let both = Needs { jobsets: true, gangs: true, queues: true, training: true };
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
    fn controllers_are_made_anew_for_kinds_that_trainjobs_are_made_into() {
        let with = |others: &[&Kind]| Surroundings {
            jobsets: true,
            claims: None,
            gangs: None,
            others: others.iter().map(|it| (*it).clone()).collect(),
            complaints: Vec::new(),
        };
        let needs = Needs { jobsets: true, gangs: true, queues: true, training: true };
        let (sets, both) = (with(&[&kinds::JOBSETS]), with(&[&kinds::JOBSETS, &VOLCANO_GROUPS]));
        for (says, needs, old, new, idle, want) in [
            ("groups are there now", needs, &sets, &both, true, true),
            ("gangs are under way", needs, &sets, &both, false, false),
            ("they went, or the server is just starting", needs, &both, &sets, true, false),
            ("nobody runs TrainJobs", Needs { training: false, ..needs }, &sets, &both, true, false),
        ] {
            assert_eq!(needs.call_for(old, new, idle), want, "{says}");
        }
    }

    #[test]
    fn a_definition_of_others_is_complained_about() {
        let ours = crd::definition();
        let (version, fields) = (stored(&ours).version, ["schema", "openAPIV3Schema", "properties", "spec"]);
        let lacks = |theirs: &Tree| {
            let lacks = definition::lacks(&ours, theirs, &version).into_iter();
            outdated(JOBSETS, &lacks.map(|it| (meta::name(&ours), it)).collect::<Vec<_>>())
        };
        assert_eq!(lacks(&ours), None);
        let bare = ours.at(&["spec", "versions"]).unwrap().map_items(|_, it| it.with(&fields, tree!({})));
        let words = lacks(&ours.with(&["spec", "versions"], bare)).unwrap();
        for part in ["it lacks spec.coordinator, ", " more. ", "--server-side --force-conflicts -f -"] {
            assert!(words.contains(part), "{words}");
        }
    }

    #[test]
    fn definitions_that_are_not_there_are_named() {
        let all = muster_queue::kinds::definitions();
        assert_eq!(stored(&all[0]), queues::RESOURCE_FLAVORS);
        let names: Vec<Text> = all.iter().map(meta::name).collect();
        let words = absent(QUEUES, &names);
        for part in ["does not know queues", "clusterqueues.kueue.x-k8s.io", " are missing", "muster crds"] {
            assert!(words.contains(part), "{words}");
        }
        assert!(
            absent(JOBSETS, &names[..1]).contains("the definition resourceflavors.kueue.x-k8s.io is missing")
        );
        let two: Vec<(Text, String)> =
            names[..2].iter().map(|it| (it.clone(), "spec.x".to_owned())).collect();
        let words = outdated(QUEUES, &two).unwrap();
        assert!(words.contains("spec.x (clusterqueues.kueue.x-k8s.io)"), "{words}");
    }
}
