//! The product as its users meet it: through its public doors, on real Postgres, beside the sandbox.
//!
//! One binary, so that all tests share one Postgres; each test has a database, a sandbox and servers of its own.
//! The modules follow a job's life, and the names of the tests say what must hold.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by ending")]

mod harness;

mod program;

mod ask;

mod start;

mod submit;

mod claim;

mod writer;

mod mishap;

mod step;

mod trouble;

mod control;

mod request_id;

mod abort;

mod stale;

mod race;

mod table;

mod approval;

mod reference;
mod reminder;

mod revision;

mod page;

mod link;

mod revoke;

mod receiver;

mod endpoint;

mod resend;

mod doors;

mod dress;

mod moved;

mod notice;

mod delivery;

mod recipient;

mod window;

mod channel;

mod meta;

mod inbound;

mod tap;

mod typed;

mod kill_send;

mod option;

mod encrypted;

mod recovery;

mod crash;

mod interrupt;

mod lease;

mod presence;
mod pressure;

mod batch;

mod batch_fault;

mod absence;

mod rolling;

mod storm;

mod watch;

mod watch_many;

mod delta;

mod list;

mod pages;

mod bulk;

mod usage;

mod price;

mod key;

mod key_table;

mod key_client;

mod actor;

mod config_file;

mod silence;

mod prune;

mod prune_apart;
mod prune_command;

mod pruned;

mod import;

mod input;

mod bad_input;

mod reason;

mod body;

mod shape;

mod wait;

mod lenient;

mod cors;

mod n8n;

mod n8n_flow;

mod openapi;

mod bound;

mod command;

mod format;

mod screen;

mod top;

mod allowance;
mod budget;
mod catalog;
mod check;

mod grpcurl;

mod upgrade;

mod newer;

mod trace;

mod metric;

mod cost;

mod tls;

mod deadline;

mod limit;

mod slow;

mod grpc_web;

mod flood;

mod figure;

mod demo;

mod doctor;

mod approved;

mod walk;

mod document;

mod manual;

mod profile;

mod shell;

mod tour;
