//! Names of what a JobSet makes.
//!
//! What has to be a DNS label is made from the JobSet's name with its dots as dashes; a volume claim keeps them.

use muster_tree::Text;
use sha1::{Digest, Sha1};

/// A JobSet's name where only a DNS label fits.
#[must_use]
pub fn dashed(jobset: &str) -> String {
    jobset.replace('.', "-")
}

/// The Job at a place of a replicatedJob.
#[must_use]
pub fn job(jobset: &str, replicated_job: &str, index: u32) -> Text {
    Text::from(format!("{}-{replicated_job}-{index}", dashed(jobset)))
}

/// The shared volume claim of a template.
#[must_use]
pub fn volume_claim(template: &str, jobset: &str) -> Text {
    Text::from(format!("{template}-{jobset}"))
}

/// The device claim of a Job and a template.
#[must_use]
pub fn device_claim(job: &str, template: &str) -> Text {
    Text::from(format!("{job}-{template}"))
}

/// What tells Jobs of the whole cluster apart in a label: 40 hexadecimal digits.
#[must_use]
pub fn job_key(namespace: &str, job: &str) -> Text {
    let hash = Sha1::digest(format!("{namespace}/{job}"));
    Text::from(hash.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}

/// The name of a pod in its domain.
#[must_use]
pub fn endpoint(job: &str, pod_index: u32, subdomain: &str) -> Text {
    Text::from(format!("{job}-{pod_index}.{subdomain}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_are_dashes_where_a_label_is_wanted() {
        assert_eq!(job("trainjob-qwen2.5", "node", 0), "trainjob-qwen2-5-node-0");
        assert_eq!(volume_claim("initializer", "trainjob-qwen2.5"), "initializer-trainjob-qwen2.5");
        assert_eq!(
            device_claim("gpu-training-jobset-job-0", "imex-channel"),
            "gpu-training-jobset-job-0-imex-channel"
        );
        assert_eq!(endpoint("a-w-0", 1, "a"), "a-w-0-1.a");
    }

    #[test]
    fn a_key_is_a_hash() {
        // printf 'default/a' | sha1sum
        assert_eq!(job_key("default", "a"), "71273818d6cbdf46a9ba682585b58383f10d7807");
    }
}
