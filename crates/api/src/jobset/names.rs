//! Names of the child objects of a JobSet.
//!
//! Names that must be DNS labels replace the dots of the JobSet's name by dashes; PVC names keep them.

use muster_tree::Text;
use sha1::{Digest, Sha1};

/// The JobSet's name as a DNS label.
#[must_use]
pub fn dns_label(jobset: &str) -> String {
    jobset.replace('.', "-")
}

/// Name of the child Job with this index.
#[must_use]
pub fn job(jobset: &str, replicated_job: &str, index: u32) -> Text {
    Text::from(format!("{}-{replicated_job}-{index}", dns_label(jobset)))
}

/// Name of the PVC of a volume claim template.
#[must_use]
pub fn volume_claim(template: &str, jobset: &str) -> Text {
    Text::from(format!("{template}-{jobset}"))
}

/// Name of the ResourceClaim of a Job and a template.
#[must_use]
pub fn device_claim(job: &str, template: &str) -> Text {
    Text::from(format!("{job}-{template}"))
}

/// The `job-key` label: SHA-1 of namespace and Job name as 40 hexadecimal digits, unique within the cluster.
#[must_use]
pub fn job_key(namespace: &str, job: &str) -> Text {
    let hash = Sha1::digest(format!("{namespace}/{job}"));
    Text::from(hash.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}

/// DNS name of a pod within its subdomain.
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
