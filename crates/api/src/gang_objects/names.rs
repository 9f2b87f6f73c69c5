//! Names of Workloads and PodGroups.
//!
//! They are DNS subdomains: long parts are truncated, and a hash keeps truncated names unique.

use muster_tree::Text;
use sha1::{Digest, Sha1};

/// Longest object name (a DNS subdomain).
pub const NAME_MAX: usize = 253;
/// Largest length of a DNS label.
const LABEL_MAX: usize = 63;
/// Length of the hash suffix of a name.
const HASH_DIGITS: usize = 10;
/// Length of the hash that stands for a PodGroup's name in a label.
const GROUP_HASH_DIGITS: usize = 16;

fn hash(words: &str, digits: usize) -> String {
    let all: String = Sha1::digest(words).iter().map(|byte| format!("{byte:02x}")).collect();
    all[..digits].to_owned()
}

/// The label value for a PodGroup's name.
#[must_use]
pub fn group_hash(group: &str) -> Text {
    Text::from(hash(group, GROUP_HASH_DIGITS))
}

/// Truncates a name to `room` bytes, without a trailing `-` or `.`, which would make it invalid.
fn front(name: &str, room: usize) -> &str {
    let cut = name.get(..name.len().min(room)).unwrap_or_default();
    if cut.len() == name.len() { cut } else { cut.trim_end_matches(['-', '.']) }
}

/// The name with a hash of its owner's UID, for names that another object may have.
#[must_use]
pub fn hashed(name: &str, owner_uid: &str) -> Text {
    let end = hash(owner_uid, HASH_DIGITS);
    Text::from(format!("{}-{end}", front(name, NAME_MAX - 1 - HASH_DIGITS)))
}

/// The name as a DNS label, truncated with a hash if it is too long.
#[must_use]
pub fn label(name: &str) -> Text {
    let dashed = name.replace('.', "-");
    if dashed.len() <= LABEL_MAX {
        return Text::from(dashed);
    }
    let end = hash(name, HASH_DIGITS);
    Text::from(format!("{}-{end}", front(&dashed, LABEL_MAX - 1 - HASH_DIGITS)))
}

/// Name of the Workload of a Job.
#[must_use]
pub fn job_workload(job: &str, uid: &str) -> Text {
    hashed(job, uid)
}

/// Name of the only template of a Job's Workload.
#[must_use]
pub fn job_template(job: &str) -> Text {
    label(&format!("{job}-pgt-0"))
}

/// Name of the PodGroup of a Job; both parts are truncated to at most half if needed.
#[must_use]
pub fn job_group(workload: &str, template: &str, job_uid: &str) -> Text {
    let end = hash(&format!("{workload}/{template}/{job_uid}"), HASH_DIGITS);
    let room = NAME_MAX - 2 - HASH_DIGITS;
    let half = room / 2;
    let first = front(workload, room.saturating_sub(template.len()).max(room - half));
    let second = front(template, room - first.len());
    Text::from(format!("{first}-{second}-{end}"))
}

/// Name of a PodGroup of a JobSet: for all its Jobs, for a replicatedJob, or for one Job. It contains the restart attempt,
/// so that each attempt starts with an empty status.
#[must_use]
pub fn set_group(jobset: &str, replicated_job: &str, index: Option<u32>, attempt: u32) -> Text {
    let mut end = String::new();
    if !replicated_job.is_empty() {
        end = format!("-{replicated_job}");
    }
    if let Some(index) = index {
        end = format!("{end}-{index}");
    }
    if attempt > 0 {
        end = format!("{end}-r{attempt}");
    }
    let whole = format!("{jobset}{end}");
    if whole.len() <= NAME_MAX {
        return Text::from(whole);
    }
    let hash = hash(&whole, HASH_DIGITS);
    Text::from(format!("{}-{hash}{end}", front(jobset, NAME_MAX - 1 - HASH_DIGITS - end.len())))
}
