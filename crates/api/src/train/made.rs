//! The words of what a TrainJob is made into: names, files, variables and settings that its pods rely on.

/// What MPI needs.
pub mod mpi {
    /// What the name of the Secret with the keys ends with.
    pub const SSH_SUFFIX: &str = "-mpi-ssh-auth";
    /// What the name of the ConfigMap with the nodes ends with.
    pub const HOSTFILE_SUFFIX: &str = "-mpi-hostfile";
    /// The type of Secrets with such keys.
    pub const SSH_TYPE: &str = "kubernetes.io/ssh-auth";
    /// The key of the private key.
    pub const PRIVATE_KEY: &str = "ssh-privatekey";
    /// The key of the public key.
    pub const PUBLIC_KEY: &str = "ssh-publickey";
    /// The volume with the keys.
    pub const SSH_VOLUME: &str = "mpi-ssh-auth";
    /// The volume with the nodes.
    pub const HOSTFILE_VOLUME: &str = "mpi-hostfile";
    /// The file with the nodes, and its key.
    pub const HOSTFILE: &str = "hostfile";
    /// Where that file is.
    pub const HOSTFILE_DIR: &str = "/etc/mpi";
    /// Where keys are when nothing is said.
    pub const SSH_PATH: &str = "/root/.ssh";
    /// The only implementation that is known.
    pub const OPEN_MPI: &str = "OpenMPI";
    /// How nodes are reached: with patience, since they may come later.
    pub const RSH_ARGS: &str = "-o ConnectionAttempts=10";
}

/// What Flux needs.
pub mod flux {
    /// What the name of the ConfigMap with the scripts ends with; the volume has the same name.
    pub const SCRIPTS_SUFFIX: &str = "-flux-entrypoint";
    /// What the name of the Secret with the certificate ends with.
    pub const CURVE_SUFFIX: &str = "-flux-curve";
    /// The script that prepares.
    pub const INIT: &str = "init.sh";
    /// The script that runs.
    pub const ENTRYPOINT: &str = "entrypoint.sh";
    /// The certificate.
    pub const CERTIFICATE: &str = "curve.cert";
    /// Setting: the image that has Flux in it.
    pub const VIEW_IMAGE: &str = "FLUX_VIEW_IMAGE";
    /// Setting: the network device.
    pub const NETWORK_DEVICE: &str = "FLUX_NETWORK_DEVICE";
    /// Setting: who comes first.
    pub const QUEUE_POLICY: &str = "FLUX_QUEUE_POLICY";
    /// All settings, with what they are when nothing is said.
    pub const SETTINGS: [(&str, &str); 3] = [
        (VIEW_IMAGE, "ghcr.io/converged-computing/flux-view-ubuntu:tag-jammy"),
        (NETWORK_DEVICE, "eth0"),
        (QUEUE_POLICY, "fcfs"),
    ];
    /// The volume that the software of Flux expects to be in.
    pub const SOFTWARE_VOLUME: &str = "spack-install";
    /// The volume with Flux.
    pub const FLUX_VOLUME: &str = "flux-install";
    /// The volume of shared memory.
    pub const MEMORY_VOLUME: &str = "shared-memory";
    /// The volume with the certificate.
    pub const CURVE_VOLUME: &str = "flux-curve";
    /// Where Flux is.
    pub const FLUX_DIR: &str = "/mnt/flux";
    /// Where its software is.
    pub const SOFTWARE_DIR: &str = "/opt/software";
    /// Where the scripts are.
    pub const SCRIPTS_DIR: &str = "/etc/flux-config";
    /// Where the certificate is.
    pub const CURVE_DIR: &str = "/curve";
    /// Where shared memory is.
    pub const MEMORY_DIR: &str = "/dev/shm";
}

/// What torchtune needs.
pub mod torchtune {
    /// The command that means it, exactly.
    pub const ENTRYPOINT: [&str; 2] = ["tune", "run"];
    /// Models that it knows how to tune.
    pub const MODELS: [&str; 4] = [LLAMA3_2_1B, LLAMA3_2_3B, LLAMA3_3_70B, QWEN2_5_1_5B];
    /// Llama 3.2, small.
    pub const LLAMA3_2_1B: &str = "llama3_2/1B";
    /// Llama 3.2.
    pub const LLAMA3_2_3B: &str = "llama3_2/3B";
    /// Llama 3.3.
    pub const LLAMA3_3_70B: &str = "llama3_3/70B";
    /// Qwen 2.5.
    pub const QWEN2_5_1_5B: &str = "qwen2_5/1.5B";
    /// What the runtime decides, and no argument may say.
    pub const MANAGED: [&str; 4] =
        ["output_dir", "tokenizer.path", "tokenizer.merges_file", "checkpointer.checkpoint_dir"];
    /// Where the nodes meet.
    pub const MEETING_POINT: &str = "--rdzv_endpoint";
    /// Which configuration.
    pub const CONFIG: &str = "--config";
    /// Argument: which parts are adapted.
    pub const LORA: &str = "model.lora_attn_modules";
    /// Argument: whether the rest is quantized.
    pub const QUANTIZE: &str = "model.quantize_base";
    /// Argument: whether weights are decomposed.
    pub const DORA: &str = "model.use_dora";
}

/// How pods are placed together by others than us.
pub mod groups {
    /// How long coscheduling waits when nothing is said, in seconds.
    pub const TIMEOUT_SECS: i64 = 60;
    /// How strictly Volcano keeps pods together when nothing is said.
    pub const TOPOLOGY_MODE: &str = "hard";
    /// How far apart it lets them be when nothing is said.
    pub const TOPOLOGY_TIER: i64 = 1;
    /// The template of the only gang of a TrainJob.
    pub const TEMPLATE: &str = "trainer";
}

/// How training tells of itself.
pub mod progress {
    /// Variable: where to.
    pub const URL: &str = "KUBEFLOW_TRAINER_SERVER_URL";
    /// Variable: the file with the authority of that server.
    pub const CA_CERT: &str = "KUBEFLOW_TRAINER_SERVER_CA_CERT";
    /// Variable: the file with the token.
    pub const TOKEN: &str = "KUBEFLOW_TRAINER_SERVER_TOKEN";
    /// The volume with both files.
    pub const VOLUME: &str = "kubeflow-trainer-token";
    /// Where that is.
    pub const DIR: &str = "/var/run/secrets/kubeflow/trainer";
    /// The file with the authority, and its key.
    pub const CA_FILE: &str = "ca.crt";
    /// The file with the token.
    pub const TOKEN_FILE: &str = "token";
    /// For how long a token is good, in seconds.
    pub const TOKEN_SECS: i64 = 3600;
    /// What the name of the ConfigMap with the authority ends with.
    pub const CA_SUFFIX: &str = "-tls-config";
}
