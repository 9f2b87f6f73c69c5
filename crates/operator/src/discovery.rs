//! Capability discovery: which of the APIs that the controllers depend on the cluster serves, checked at the start of a
//! leadership and periodically.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_api::client::{
    ApiError, ApiRequest, Kind, Preconditions, RequestTarget, RequestVerb, Subresource,
};
use muster_api::crd_schema;
use muster_api::gang::{COSCHEDULING_GROUPS, GangSupport, VOLCANO_GROUPS};
use muster_api::kinds;
use muster_api::meta;
use muster_cluster::{KubeApi, ServedResource};
use muster_jobset::crd;
use muster_tree::{Text, Tree, literal};

use crate::podgroup_detect;

/// Interval between two discovery requests.
const DISCOVERY_INTERVAL: Duration = Duration::from_secs(120);
/// Gang API detection sends a dry-run request, so it runs only in every fifth discovery: every ten minutes.
const GANG_DETECTION_EVERY: u32 = 5;
/// Missing CRD fields that a warning lists.
const REPORTED_FIELDS_MAX: usize = 6;
/// The versions of `resourceclaims` that are supported, in order of preference.
const CLAIM_VERSIONS: [Text; 3] = [literal!("v1"), literal!("v1beta2"), literal!("v1beta1")];
/// How warnings name the objects of a CRD.
const JOBSETS: &str = "JobSets";
const QUEUES: &str = "queues";
const TRAINING: &str = "TrainJobs";

#[derive(Debug, Clone, PartialEq)]
pub struct ClusterCapabilities {
    /// Whether the JobSet API is served.
    pub jobsets: bool,
    /// The served version of `resourceclaims`, if any.
    pub resource_claims: Option<Kind>,
    /// The gang API, and how pods name their group.
    pub gangs: Option<GangSupport>,
    /// Served kinds that TrainJobs are built into: JobSets and the PodGroups of coscheduling and Volcano.
    pub trainjob_child_kinds: BTreeSet<Kind>,
    /// Missing or outdated CRDs, as warnings for the log.
    pub problems: Vec<String>,
}

/// Which capabilities the enabled controllers depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequiredCapabilities {
    pub jobsets: bool,
    pub gangs: bool,
    pub queues: bool,
    pub training: bool,
}

impl RequiredCapabilities {
    pub fn any(self) -> bool {
        self.jobsets || self.gangs || self.queues || self.training
    }

    /// Whether the controllers have to be restarted for what changed from `old` to `new`.
    ///
    /// An API that disappears does not count: the API server may just be starting, with its discovery incomplete. A change of
    /// the gang API waits until no pod is pending, so that a gang is not placed half by one API and half by another.
    fn restart_required(self, old: &ClusterCapabilities, new: &ClusterCapabilities, idle: bool) -> bool {
        let claims = new.resource_claims.is_some() && new.resource_claims != old.resource_claims;
        let gangs = new.gangs.is_some() && new.gangs != old.gangs;
        let others = !new.trainjob_child_kinds.is_subset(&old.trainjob_child_kinds);
        (self.jobsets && claims) || (self.gangs && gangs && idle) || (self.training && others && idle)
    }
}

impl ClusterCapabilities {
    /// Runs discovery. The gang API is detected by a dry run in `namespace`, where it is required.
    ///
    /// # Errors
    /// API discovery failed.
    pub async fn discover(
        api: &KubeApi,
        namespace: &str,
        needs: RequiredCapabilities,
    ) -> Result<ClusterCapabilities, ApiError> {
        let served = api.served_resources().await?;
        let gangs = if needs.gangs { podgroup_detect::detect(api, &served, namespace).await } else { None };
        Ok(ClusterCapabilities { gangs, ..ClusterCapabilities::of(api, &served, needs).await })
    }

    async fn of(
        api: &KubeApi,
        served: &[ServedResource],
        needs: RequiredCapabilities,
    ) -> ClusterCapabilities {
        let has = |kind: &Kind| served.iter().any(|it| it.kind == *kind);
        let jobsets = has(&kinds::JOBSETS);
        let mut complaints = Vec::new();
        if needs.jobsets {
            complaints.extend(crd_problem(api, JOBSETS, &[crd::manifest()], &has).await);
        }
        if needs.queues {
            complaints.extend(crd_problem(api, QUEUES, &muster_queue::kinds::definitions(), &has).await);
        }
        if needs.training {
            complaints.extend(crd_problem(api, TRAINING, &muster_trainer::kinds::crds(), &has).await);
        }
        let others = [&kinds::JOBSETS, &COSCHEDULING_GROUPS, &VOLCANO_GROUPS].into_iter();
        let others = others.filter(|kind| has(kind)).cloned().collect();
        ClusterCapabilities {
            jobsets,
            resource_claims: resource_claim_kind(served),
            gangs: None,
            trainjob_child_kinds: others,
            problems: complaints,
        }
    }

    /// Polls discovery until the controllers have to be restarted, and logs new problems meanwhile; `idle` tells whether no
    /// gang is being placed.
    pub async fn wait_for_change(
        &self,
        api: &KubeApi,
        namespace: &str,
        needs: RequiredCapabilities,
        idle: impl Fn() -> bool,
    ) -> ClusterCapabilities {
        let mut known = self.clone();
        for turn in 1_u32.. {
            tokio::time::sleep(DISCOVERY_INTERVAL).await;
            let now = match turn % GANG_DETECTION_EVERY {
                0 => ClusterCapabilities::discover(api, namespace, needs).await,
                _ => match api.served_resources().await {
                    Ok(served) => {
                        let now = ClusterCapabilities::of(api, &served, needs).await;
                        Ok(ClusterCapabilities { gangs: known.gangs, ..now })
                    }
                    Err(refusal) => Err(refusal),
                },
            };
            match now {
                Ok(now) if needs.restart_required(self, &now, idle()) => return now,
                Ok(now) => {
                    now.warn_new_problems(&known.problems);
                    known = now;
                }
                Err(refusal) => tracing::debug!(%refusal, "API discovery failed"),
            }
        }
        known
    }

    /// Logs the problems that are not in `told` yet.
    pub fn warn_new_problems(&self, told: &[String]) {
        for words in self.problems.iter().filter(|words| !told.contains(words)) {
            tracing::warn!("{words}");
        }
    }
}

/// All supported kinds of `resourceclaims`, in order of preference.
pub fn resource_claim_kinds() -> impl Iterator<Item = Kind> {
    CLAIM_VERSIONS.map(|version| Kind { version, ..kinds::RESOURCE_CLAIMS.clone() }).into_iter()
}

/// The preferred version of `resourceclaims` that is served.
fn resource_claim_kind(served: &[ServedResource]) -> Option<Kind> {
    resource_claim_kinds().find(|kind| served.iter().any(|it| it.kind == *kind))
}

/// Compares the CRDs of the cluster with ours: which are missing, and which fields they lack.
async fn crd_problem(api: &KubeApi, of: &str, ours: &[Tree], has: &impl Fn(&Kind) -> bool) -> Option<String> {
    let (there, missing): (Vec<&Tree>, Vec<&Tree>) = ours.iter().partition(|it| has(&storage_kind(it)));
    if !missing.is_empty() {
        let names = missing.iter().map(|it| meta::name(it)).collect::<Vec<Text>>();
        return Some(missing_crds(of, &names));
    }
    let mut lacks = Vec::new();
    for ours in there {
        let name = meta::name(ours);
        match get_crd(api, &name).await {
            Ok(theirs) => {
                lacks.extend(
                    crd_schema::missing_fields(ours, &theirs, &storage_kind(ours).version)
                        .into_iter()
                        .map(|it| (name.clone(), it)),
                );
            }
            // Reading CRDs takes a permission of its own; without it the comparison is skipped, not failed.
            Err(refusal) => tracing::debug!(%refusal, %name, "cannot read a CRD"),
        }
    }
    outdated_crd(of, &lacks)
}

async fn get_crd(api: &KubeApi, name: &Text) -> Result<Tree, ApiError> {
    let (kind, namespace) = (kinds::CRDS.clone(), Text::new());
    let on = RequestTarget { kind, namespace, name: name.clone(), subresource: Subresource::Main };
    let call = ApiRequest {
        field_manager: literal!("muster"),
        target: on,
        preconditions: Preconditions::default(),
        verb: RequestVerb::Get,
    };
    Ok(api.perform(&call).await?.tree)
}

/// The kind of a CRD in its storage version.
fn storage_kind(definition: &Tree) -> Kind {
    let mut versions = definition.items_at(&["spec", "versions"]).iter();
    let version = versions.find(|it| it.bool_at(&["storage"]) == Some(true));
    Kind {
        group: definition.text_at(&["spec", "group"]),
        version: version.map(|it| it.text_at(&["name"])).unwrap_or_default(),
        plural: definition.text_at(&["spec", "names", "plural"]),
    }
}

/// The warning about missing CRDs. Webhooks and controllers need no restart for them: their watches pick the objects up.
fn missing_crds(of: &str, names: &[Text]) -> String {
    let (crd, are) = if names.len() == 1 { ("the CRD", "is") } else { ("the CRDs", "are") };
    format!(
        "this cluster does not serve {of}: {crd} {} {are} missing. \
         Install with `muster crds | kubectl apply --server-side -f -`; {of} are reconciled as soon as they are served",
        names.join(", ")
    )
}

/// The warning about outdated CRDs; `lacks` pairs the name of a CRD with a missing field.
fn outdated_crd(of: &str, lacks: &[(Text, String)]) -> Option<String> {
    let (name, _) = lacks.first()?;
    let same = lacks.iter().all(|it| it.0 == *name);
    let field = |(name, field): &(Text, String)| match same {
        true => field.clone(),
        false => format!("{field} ({name})"),
    };
    let named = lacks.iter().take(REPORTED_FIELDS_MAX).map(field).collect::<Vec<_>>().join(", ");
    let more = match lacks.len().saturating_sub(REPORTED_FIELDS_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(format!(
        "the CRD {name} of this cluster is older than this operator or of another origin: it lacks {named}{more}. \
         The API server prunes these fields from {of}, which then run without them. Install ours with \
         `muster crds | kubectl apply --server-side --force-conflicts -f -`"
    ))
}

#[cfg(test)]
mod tests {
    use muster_api::gang::GangApi;
    use muster_api::queue::kinds as queues;
    use muster_tree::tree;

    use super::*;

    fn served(versions: &[&str]) -> Vec<ServedResource> {
        let kind = |version: &&str| Kind { version: Text::from(*version), ..kinds::RESOURCE_CLAIMS.clone() };
        let one = |version| ServedResource {
            kind: kind(version),
            kind_name: "ResourceClaim".into(),
            namespaced: true,
        };
        versions.iter().map(one).collect()
    }

    #[test]
    fn the_preferred_version_of_resource_claims() {
        for (versions, want) in [
            (&[][..], None),
            (&["v1beta1"], Some("v1beta1")),
            (&["v1beta1", "v1beta2"], Some("v1beta2")),
            (&["v1beta1", "v1", "v1beta2"], Some("v1")),
            (&["v2"], None),
        ] {
            assert_eq!(resource_claim_kind(&served(versions)).map(|it| it.version), want.map(Text::from));
        }
    }

    /// Shows: 5832-62.
    #[test]
    fn controllers_restart_for_apis_that_they_use() {
        let claims = || Some(kinds::RESOURCE_CLAIMS.clone());
        let [own, released] = [GangApi::Own, GangApi::Released]
            .map(|form| Some(GangSupport { api: form, marker: muster_api::gang::GroupMarker::Annotations }));
        let seen = |claims, gangs| {
            let (others, complaints) = (BTreeSet::new(), Vec::new());
            ClusterCapabilities {
                jobsets: true,
                resource_claims: claims,
                gangs,
                trainjob_child_kinds: others,
                problems: complaints,
            }
        };
        let both = RequiredCapabilities { jobsets: true, gangs: true, queues: true, training: true };
        for (says, needs, old, new, idle, want) in [
            ("nothing new", both, seen(claims(), own), seen(claims(), own), true, false),
            ("claims", both, seen(None, own), seen(claims(), own), false, true),
            ("claims disappear", both, seen(claims(), own), seen(None, own), true, false),
            (
                "claims that are not required",
                RequiredCapabilities { jobsets: false, ..both },
                seen(None, own),
                seen(claims(), own),
                true,
                false,
            ),
            ("gangs, and no pod is pending", both, seen(None, own), seen(None, released), true, true),
            ("gangs, and pods are pending", both, seen(None, own), seen(None, released), false, false),
            ("the first gangs", both, seen(None, None), seen(None, own), true, true),
            ("gangs disappear", both, seen(None, own), seen(None, None), true, false),
            (
                "gangs that are not required",
                RequiredCapabilities { gangs: false, ..both },
                seen(None, own),
                seen(None, released),
                true,
                false,
            ),
        ] {
            assert_eq!(needs.restart_required(&old, &new, idle), want, "{says}");
        }
    }

    #[test]
    fn controllers_restart_for_kinds_that_trainjobs_are_built_into() {
        let with = |others: &[&Kind]| ClusterCapabilities {
            jobsets: true,
            resource_claims: None,
            gangs: None,
            trainjob_child_kinds: others.iter().map(|it| (*it).clone()).collect(),
            problems: Vec::new(),
        };
        let needs = RequiredCapabilities { jobsets: true, gangs: true, queues: true, training: true };
        let (sets, both) = (with(&[&kinds::JOBSETS]), with(&[&kinds::JOBSETS, &VOLCANO_GROUPS]));
        for (says, needs, old, new, idle, want) in [
            ("PodGroups are served now", needs, &sets, &both, true, true),
            ("pods are pending", needs, &sets, &both, false, false),
            ("they disappear, or the API server is just starting", needs, &both, &sets, true, false),
            (
                "TrainJobs are not controlled",
                RequiredCapabilities { training: false, ..needs },
                &sets,
                &both,
                true,
                false,
            ),
        ] {
            assert_eq!(needs.restart_required(old, new, idle), want, "{says}");
        }
    }

    #[test]
    fn an_outdated_crd_is_reported() {
        let ours = crd::manifest();
        let (version, fields) =
            (storage_kind(&ours).version, ["schema", "openAPIV3Schema", "properties", "spec"]);
        let lacks = |theirs: &Tree| {
            let lacks = crd_schema::missing_fields(&ours, theirs, &version).into_iter();
            outdated_crd(JOBSETS, &lacks.map(|it| (meta::name(&ours), it)).collect::<Vec<_>>())
        };
        assert_eq!(lacks(&ours), None);
        let bare = ours.at(&["spec", "versions"]).unwrap().map_items(|_, it| it.with(&fields, tree!({})));
        let words = lacks(&ours.with(&["spec", "versions"], bare)).unwrap();
        for part in ["it lacks spec.coordinator, ", " more. ", "--server-side --force-conflicts -f -"] {
            assert!(words.contains(part), "{words}");
        }
    }

    #[test]
    fn missing_crds_are_named() {
        let all = muster_queue::kinds::definitions();
        assert_eq!(storage_kind(&all[0]), queues::RESOURCE_FLAVORS);
        let names: Vec<Text> = all.iter().map(meta::name).collect();
        let words = missing_crds(QUEUES, &names);
        for part in ["does not serve queues", "clusterqueues.kueue.x-k8s.io", " are missing", "muster crds"] {
            assert!(words.contains(part), "{words}");
        }
        assert!(
            missing_crds(JOBSETS, &names[..1]).contains("the CRD resourceflavors.kueue.x-k8s.io is missing")
        );
        let two: Vec<(Text, String)> =
            names[..2].iter().map(|it| (it.clone(), "spec.x".to_owned())).collect();
        let words = outdated_crd(QUEUES, &two).unwrap();
        assert!(words.contains("spec.x (clusterqueues.kueue.x-k8s.io)"), "{words}");
    }
}
