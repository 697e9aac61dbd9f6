-- Scripts of Valvehouse in Neovim 0.11 and later. Load it in init.lua: require("valvehouse")
-- Copy this file to ~/.config/nvim/lua/valvehouse.lua.

vim.filetype.add({ extension = { rhai = "rhai" } })

vim.lsp.config("valvehouse", {
  cmd = { "valvehouse", "lsp" },
  filetypes = { "rhai" },
  root_markers = { "valvehouse.toml", "filters", "tools" },
})
vim.lsp.enable("valvehouse")

vim.api.nvim_create_autocmd("FileType", {
  pattern = "rhai",
  callback = function(event)
    vim.bo[event.buf].commentstring = "// %s"
    vim.bo[event.buf].shiftwidth = 4
    vim.bo[event.buf].expandtab = true
  end,
})

vim.api.nvim_create_autocmd("LspAttach", {
  callback = function(event)
    local client = vim.lsp.get_client_by_id(event.data.client_id)
    if not client or client.name ~= "valvehouse" then
      return
    end
    -- grn renames, grr lists references, gra shows quick fixes, K documentation, CTRL-] the declaration.
    vim.lsp.inlay_hint.enable(true, { bufnr = event.buf })
    vim.lsp.codelens.refresh({ bufnr = event.buf })
    vim.api.nvim_create_autocmd({ "BufEnter", "InsertLeave" }, {
      buffer = event.buf,
      callback = function()
        vim.lsp.codelens.refresh({ bufnr = event.buf })
      end,
    })
    vim.api.nvim_create_autocmd("BufWritePre", {
      buffer = event.buf,
      callback = function()
        vim.lsp.buf.format({ bufnr = event.buf, name = "valvehouse" })
      end,
    })
    vim.keymap.set("n", "<leader>t", vim.lsp.codelens.run, { buffer = event.buf, desc = "Run the test of this line" })
  end,
})
