-- Room on the page: a call is settled soon after its row was written, and once; with room beside it the settled row
-- stays on its page and needs no new entry in the index.
-- Only what is written from now on is laid out so; no row is touched, and nobody waits.

alter table longhaul.model_call set (fillfactor = 60);
