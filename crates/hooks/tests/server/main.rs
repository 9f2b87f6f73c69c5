//! JobSets and their pods through the whole server, in memory: schema, rules of the schema and admission together, and
//! refusals as clients get them. Each rule has its table in `muster_jobset::admission`; here one violation of each shows
//! that it reaches the client with its path and its words.

mod changes;
mod new_sets;
mod pods;
mod queues;
mod training;
mod volumes;
mod world;
