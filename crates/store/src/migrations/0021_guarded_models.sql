-- The models that list a guard which runs for those alone: a model that drops out of the list is noticed.
CREATE TABLE guarded_models (
    plugin TEXT NOT NULL,
    model TEXT NOT NULL,
    PRIMARY KEY (plugin, model)
) STRICT, WITHOUT ROWID;
