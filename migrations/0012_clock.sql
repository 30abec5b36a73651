-- The clock, read often: a function in SQL with a look inside is planned anew in every statement that calls it,
-- which took longer than many of them; one in PL/pgSQL keeps its plan for the session.
-- beside the release before: it says the same.
create or replace function longhaul.now() returns timestamptz
  language plpgsql stable parallel safe as $$
begin
  return statement_timestamp()
    + coalesce((select value::interval from longhaul.setting where name = 'clock_shift'), interval '0');
end
$$;
