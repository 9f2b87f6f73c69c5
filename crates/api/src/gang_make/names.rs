//! Names of Workloads and PodGroups.
//!
//! They are DNS subdomains, so that long parts give way, and each has enough of a hash to stay apart.

use muster_tree::Text;
use sha1::{Digest, Sha1};

/// Longest name of an object.
pub const NAME_MAX: usize = 253;
/// Longest DNS label.
const LABEL_MAX: usize = 63;
/// Digits that tell namesakes apart.
const HASH_DIGITS: usize = 10;
/// Digits of the hash of a group's name in a label.
const GROUP_HASH_DIGITS: usize = 16;

fn hash(words: &str, digits: usize) -> String {
    let all: String = Sha1::digest(words).iter().map(|byte| format!("{byte:02x}")).collect();
    all[..digits].to_owned()
}

/// What stands for the name of a group in a label.
#[must_use]
pub fn group_hash(group: &str) -> Text {
    Text::from(hash(group, GROUP_HASH_DIGITS))
}

/// The beginning of a name that leaves room; what would not be a name any more goes too.
fn front(name: &str, room: usize) -> &str {
    let cut = name.get(..name.len().min(room)).unwrap_or_default();
    if cut.len() == name.len() { cut } else { cut.trim_end_matches(['-', '.']) }
}

/// The name with a hash of its owner: for names that are another's, and for those that two may want.
#[must_use]
pub fn hashed(name: &str, owner_uid: &str) -> Text {
    let end = hash(owner_uid, HASH_DIGITS);
    Text::from(format!("{}-{end}", front(name, NAME_MAX - 1 - HASH_DIGITS)))
}

/// A name where only a DNS label fits.
#[must_use]
pub fn label(name: &str) -> Text {
    let dashed = name.replace('.', "-");
    if dashed.len() <= LABEL_MAX {
        return Text::from(dashed);
    }
    let end = hash(name, HASH_DIGITS);
    Text::from(format!("{}-{end}", front(&dashed, LABEL_MAX - 1 - HASH_DIGITS)))
}

/// The Workload of a Job.
#[must_use]
pub fn job_workload(job: &str, uid: &str) -> Text {
    hashed(job, uid)
}

/// The only template of a Job's Workload.
#[must_use]
pub fn job_template(job: &str) -> Text {
    label(&format!("{job}-pgt-0"))
}

/// The group of a Job: both parts give way to each other fairly.
#[must_use]
pub fn job_group(workload: &str, template: &str, job_uid: &str) -> Text {
    let end = hash(&format!("{workload}/{template}/{job_uid}"), HASH_DIGITS);
    let room = NAME_MAX - 2 - HASH_DIGITS;
    let half = room / 2;
    let first = front(workload, room.saturating_sub(template.len()).max(room - half));
    let second = front(template, room - first.len());
    Text::from(format!("{first}-{second}-{end}"))
}

/// A group of a JobSet: of all its Jobs, of those of a replicatedJob, or of one of them; a name of its own for each
/// attempt, so that each has a status of its own.
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
