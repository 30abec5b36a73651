-- Reports on usage read the ledger by time. It is written in the order of time, so an index of its blocks is enough:
-- it is tiny, and a call that is written adds nothing to it.

create index model_call_started on longhaul.model_call using brin (started_at) with (autosummarize = on);
