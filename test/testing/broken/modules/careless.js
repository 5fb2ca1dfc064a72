export default ({ payload }) => ({ message: payload.text.trim() });
