-- Reports on usage read the ledger by time. It is written in the order of time, so an index of its blocks is enough:
-- it is tiny, and a call that is written adds nothing to it.

create index model_call_started on longhaul.model_call using brin (started_at) with (autosummarize = on);

-- Prices that were imported, beside those that ship with the program.

create table longhaul.price (
  model       text        not null,
  valid_from  date        not null,
  source      text        not null,
  imported_at timestamptz not null,
  price       jsonb       not null,
  primary key (model, valid_from)
);
comment on table longhaul.price is 'Prices of models that were imported; where one holds, it goes before the list that ships.';
comment on column longhaul.price.model is 'The exact id of the model.';
comment on column longhaul.price.valid_from is 'The first day it holds, in UTC; it holds until the next one of its model.';
comment on column longhaul.price.source is 'Whose list it was taken from: litellm, or genai-prices.';
comment on column longhaul.price.imported_at is 'When it was imported.';
comment on column longhaul.price.price is
  'The price in the shape of the list that ships: US dollars for a million tokens of each class, as decimal strings.';
