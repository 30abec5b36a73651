/**
 * The client of Longhaul, a durable queue for long AI jobs.
 *
 * <p>{@link dev.longhaul.LonghaulClient} submits jobs, shows, moves and watches them; the messages are those of the
 * proto, in {@code dev.longhaul.v1}.
 */
package dev.longhaul;
